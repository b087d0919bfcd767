package dbcell

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/statehive/statehive/statedb"
)

const (
	// maxNamed is how many keys an error names.
	maxNamed = 5
	// maxCompared bounds the time that a mistyped key takes in a large table.
	maxCompared = 100_000
)

// keyError is an error about a primary key, with the keys that exist instead.
type keyError struct {
	err   error
	exist string
}

func (e *keyError) Error() string { return e.err.Error() + "; " + e.exist }
func (e *keyError) Unwrap() error { return e.err }

// keysLike describes the keys of a table that are most similar to the given one: the keys with the longest beginning in common with it.
func keysLike(table statedb.AnyTable, txn statedb.ReadTxn, key string) string {
	total := table.Len(txn)
	if total == 0 {
		return "the table is empty"
	}
	var like similar
	for row := range table.All(txn) {
		if like.compared == maxCompared {
			break
		}
		like.add(row.Key, commonPrefix(row.Key, key))
	}
	return like.describe(total)
}

// similar collects the keys with the longest beginning in common with a given key.
type similar struct {
	compared int
	prefix   string // the beginning that the keys have in common with the given key
	named    []string
	count    int // named or not
}

func (s *similar) add(key, prefix string) {
	s.compared++
	if len(prefix) > len(s.prefix) {
		s.prefix, s.named, s.count = prefix, nil, 0
	}
	if len(prefix) < len(s.prefix) {
		return
	}
	s.count++
	if len(s.named) < maxNamed {
		s.named = append(s.named, key)
	}
}

func (s *similar) describe(total int) string {
	if s.prefix == "" || s.count == total {
		return list(fmt.Sprintf("it has %s", plural(total, "row")), s.named, total)
	}
	whole := ""
	if s.compared < total {
		whole = fmt.Sprintf(" among the first %d", s.compared)
	}
	begins := fmt.Sprintf("of its %s, %d%s begin with %q", plural(total, "row"), s.count, whole, s.prefix)
	if s.count == 1 {
		begins = strings.Replace(begins, "begin", "begins", 1)
	}
	return list(begins, s.named, s.count)
}

func list(what string, named []string, total int) string {
	text := what + ": " + strings.Join(named, ", ")
	if more := total - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// commonPrefix returns the beginning of key that it has in common with other, ignoring case.
func commonPrefix(key, other string) string {
	for i, r := range key {
		o, size := utf8.DecodeRuneInString(other)
		if size == 0 || unicode.ToLower(r) != unicode.ToLower(o) {
			return key[:i]
		}
		other = other[size:]
	}
	return key
}
