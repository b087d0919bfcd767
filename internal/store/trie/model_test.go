package trie

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"pgregory.net/rapid"
)

// model is what a tree should hold. Values are never 0.
type model map[string]int

func (m model) sorted() sortedKeys { return slices.Sorted(maps.Keys(m)) }

// sortedKeys are what each query should visit; the results are not to be modified.
type sortedKeys []string

func (s sortedKeys) from(key string) sortedKeys {
	i, _ := slices.BinarySearch(s, key)
	return s[i:]
}

func (s sortedKeys) below(key string) sortedKeys {
	i, _ := slices.BinarySearch(s, key)
	return s[:i]
}

func (s sortedKeys) withPrefix(prefix string) sortedKeys {
	keys := s.from(prefix)
	for i, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			return keys[:i]
		}
	}
	return keys
}

func (s sortedKeys) reversed() sortedKeys {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// around returns the keys and some between them.
func (s sortedKeys) around() []string {
	probes := slices.Clone(s)
	for _, key := range s {
		probes = append(probes, key+"\x00")
		if key != "" {
			probes = append(probes, key[:len(key)-1]+string([]byte{key[len(key)-1] - 1}))
		}
	}
	return probes
}

// query is a question for a range.
type query struct {
	kind     string
	from, to string
	reverse  bool
}

var queryKinds = []string{"All", "One", "Prefix", "From", "Between"}

func (q query) String() string {
	return fmt.Sprintf("%s(%s, %s), reverse %t,", q.kind, brief(q.from), brief(q.to), q.reverse)
}

func (q query) in(t *Tree) (r Range) {
	switch q.kind {
	case "All":
		r = t.All()
	case "One":
		r = t.One([]byte(q.from))
	case "Prefix":
		r = t.Prefix([]byte(q.from))
	case "From":
		r = t.From([]byte(q.from))
	case "Between":
		r = t.Between([]byte(q.from), []byte(q.to))
	}
	r.Reverse = q.reverse
	return r
}

func (q query) of(s sortedKeys) (keys sortedKeys) {
	switch q.kind {
	case "All":
		keys = s
	case "One":
		if keys = s.from(q.from); len(keys) > 0 && keys[0] == q.from {
			keys = keys[:1]
		} else {
			keys = nil
		}
	case "Prefix":
		keys = s.withPrefix(q.from)
	case "From":
		keys = s.from(q.from)
	case "Between":
		keys = s.from(q.from).below(q.to)
	}
	if q.reverse {
		return keys.reversed()
	}
	return keys
}

func drawQuery(t *rapid.T) query {
	return query{
		kind:    rapid.SampledFrom(queryKinds).Draw(t, "query"),
		from:    keys().Draw(t, "from"),
		to:      keys().Draw(t, "to"),
		reverse: rapid.Bool().Draw(t, "reverse"),
	}
}

// differs compares what a scan visits with the keys that it should, in order. The
// scan may be in use.
func (m model) differs(s *Scan, r Range, want sortedKeys) error {
	if first := r.First(); (first == nil) != (len(want) == 0) || first != nil && string(Key(first)) != want[0] {
		return fmt.Errorf("begins with %v, expected one of %d keys", first, len(want))
	}
	s.Start(&r)
	i := 0
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			if i == len(want) {
				return fmt.Errorf("visits %s after all %d keys", brief(string(Key(leaf))), len(want))
			}
			if string(Key(leaf)) != want[i] || valueOf(leaf) != m[want[i]] {
				return fmt.Errorf("visits %s=%d at place %d, expected %s=%d", brief(string(Key(leaf))), valueOf(leaf), i, brief(want[i]), m[want[i]])
			}
			i++
		}
	}
	if i < len(want) {
		return fmt.Errorf("visits %d keys, expected %d: %s is missing", i, len(want), brief(want[i]))
	}
	if len(s.Next()) > 0 {
		return errors.New("goes on after its end")
	}
	return nil
}

// check compares everything that a tree answers with the model, asking at and
// between the keys of the model and at the probes.
func (m model) check(t Tree, probes ...string) error {
	if t.Len() != len(m) {
		return fmt.Errorf("Len is %d, expected %d", t.Len(), len(m))
	}
	sorted := m.sorted()
	probes = slices.Concat([]string{""}, sorted.around(), probes)
	var s Scan
	for i, key := range probes {
		if err := m.checkLeaf(key, t.Get([]byte(key))); err != nil {
			return fmt.Errorf("Get: %w", err)
		}
		if at := t.Locate([]byte(key)); at.Leaf() != t.Get([]byte(key)) {
			return fmt.Errorf("Locate(%s) finds another leaf than Get", brief(key))
		}
		for _, q := range queriesAt(key, probes[(i*7+3)%len(probes)]) {
			r := q.in(&t)
			if err := m.differs(&s, r, q.of(sorted)); err != nil {
				return fmt.Errorf("%v %w", q, err)
			}
			s.Start(&r) // the next one begins in the midst of this
			if i%2 == 0 {
				s.Next()
			}
		}
	}
	return nil
}

// queriesAt returns the queries about a key in both directions; there is only one
// for all keys.
func queriesAt(key, to string) (queries []query) {
	for _, kind := range queryKinds {
		if kind == "All" && key != "" {
			continue
		}
		queries = append(queries, query{kind, key, to, false}, query{kind, key, to, true})
	}
	return queries
}

func (m model) checkLeaf(key string, leaf unsafe.Pointer) error {
	if want, exists := m[key]; exists != (leaf != nil) || valueOf(leaf) != want {
		return fmt.Errorf("%s is %d, %t; expected %d, %t", brief(key), valueOf(leaf), leaf != nil, want, exists)
	}
	if leaf != nil && string(Key(leaf)) != key {
		return fmt.Errorf("the key %s is %s", brief(key), brief(string(Key(leaf))))
	}
	return nil
}

func brief(key string) string {
	if len(key) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", key[:40], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// keys draws short keys that share prefixes, hold zero bytes and are often
// prefixes of one another.
func keys() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]byte{0, 1, 0x10, 'a', 'b', 'c', 0xff})
	return rapid.Map(rapid.SliceOfN(letters, 0, 6), func(b []byte) string { return string(b) })
}

type version struct {
	tree Tree
	want model
}

// history is a tree under random transactions, and all that it has been.
type history struct {
	leaf     maker
	ids      uint64
	txn      Txn       // of each version, one after the other
	versions []version // those that were published
	values   int       // so that each write has a value of its own
}

func newHistory(leaf maker) *history {
	return &history{leaf: leaf, versions: []version{{New(), model{}}}}
}

// load returns a history whose newest version holds the model.
func load(leaf maker, m model) *history {
	h := newHistory(leaf)
	h.begin()
	for key, value := range m {
		h.txn.Insert([]byte(key), leaf([]byte(key), value))
	}
	h.commit(m)
	return h
}

func (h *history) newest() version { return h.versions[len(h.versions)-1] }

// published is for watches.
func (h *history) published() Tree { return h.newest().tree }

// begin begins a transaction on the newest version and returns what is in it.
func (h *history) begin() model {
	v := h.newest()
	h.txn.Begin(&v.tree, &h.ids)
	return maps.Clone(v.want)
}

// commit publishes what is in the transaction.
func (h *history) commit(want model) version {
	v := version{h.txn.Commit(), want}
	h.versions = append(h.versions, v)
	h.txn.Notify()
	return v
}

// write makes random writes in a new transaction on the newest version.
func (h *history) write(t *rapid.T, writes int) model {
	want := h.begin()
	h.continues(t, &h.txn, want, writes)
	return want
}

// continues makes more of them in an open transaction.
func (h *history) continues(t *rapid.T, x *Txn, want model, writes int) {
	for range writes {
		key := keys().Draw(t, "key")
		if rapid.IntRange(0, 2).Draw(t, "remove if 0") == 0 {
			must(t, "Remove", want.checkLeaf(key, x.Remove([]byte(key))))
			delete(want, key)
		} else {
			h.put(t, x, want, key)
		}
		must(t, "after its write", want.checkLeaf(key, x.Get([]byte(key))))
		if x.Len() != len(want) {
			t.Fatalf("Len inside the transaction is %d, expected %d", x.Len(), len(want))
		}
	}
}

func (h *history) put(t *rapid.T, x *Txn, want model, key string) {
	h.values++
	leaf := h.leaf([]byte(key), h.values)
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		_, exists := want[key]
		if replaced := x.Insert([]byte(key), leaf); replaced != exists {
			t.Fatalf("Insert(%q) replaced: %t", key, replaced)
		}
	case 1:
		at := x.Locate([]byte(key))
		must(t, "Locate", want.checkLeaf(key, at.Leaf()))
		x.Put([]byte(key), leaf, at)
	case 2:
		view := x.View()
		at := view.Locate([]byte(key))
		must(t, "Locate", want.checkLeaf(key, at.Leaf()))
		x.Put([]byte(key), leaf, at)
	}
	want[key] = h.values
}

func must(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, where string, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}
