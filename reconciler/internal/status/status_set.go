package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// Set holds the statuses of a row with several reconcilers, by name. The status of a name that is
// absent is pending, so the zero value is the set in which all are pending.
//
// A Set is immutable and has the size of a pointer, so that a row can hold it by value. Two sets
// are == if one is a copy of the other; sets that were built separately may differ even if they
// hold the same statuses.
type Set struct{ first *namedStatus }

// namedStatus is an element of an immutable list that is sorted by name. Versions of a set share
// the elements after the last difference.
type namedStatus struct {
	name   string
	status Status
	next   *namedStatus
}

// Get returns the status with the given name, which is pending if it is absent.
func (s Set) Get(name string) Status {
	for n := s.first; n != nil && n.name <= name; n = n.next {
		if n.name == name {
			return n.status
		}
	}
	return Status{}
}

// With returns a set in which the given name has the given status. A pending status removes the
// name. If nothing changes, the result is == s.
func (s Set) With(name string, status Status) Set {
	if status.kind == Pending {
		status = Status{}
	}
	if s.Get(name) == status {
		return s
	}
	return Set{s.first.with(name, status)}
}

// with returns the list with a status replaced, which must differ from the present one.
func (n *namedStatus) with(name string, status Status) *namedStatus {
	if n != nil && n.name < name {
		return &namedStatus{n.name, n.status, n.next.with(name, status)}
	}
	rest := n
	if n != nil && n.name == name {
		rest = n.next
	}
	if status == (Status{}) {
		return rest
	}
	return &namedStatus{name, status, rest}
}

// All yields the statuses that are not pending, sorted by name.
func (s Set) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for n := s.first; n != nil && yield(n.name, n.status); n = n.next {
		}
	}
}

// String returns the names with their statuses, or pending if there are none.
func (s Set) String() string {
	if s.first == nil {
		return Pending.String()
	}
	var parts []string
	for name, status := range s.All() {
		parts = append(parts, name+": "+status.String())
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON implements json.Marshaler: an object with a status for each name.
func (s Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.byName()) }

func (s Set) byName() map[string]Status {
	named := map[string]Status{}
	for name, status := range s.All() {
		named[name] = status
	}
	return named
}

// UnmarshalJSON implements json.Unmarshaler. Duplicate names and unknown kinds are errors, which
// leave the set unchanged.
func (s *Set) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	switch token, err := dec.Token(); {
	case err != nil:
		return err
	case token == nil: // null changes nothing, as everywhere in JSON
		return nil
	case token != json.Delim('{'):
		return fmt.Errorf("statuses are %s, expected an object with a status for each name", data)
	}
	var set Set
	seen := map[string]bool{}
	for dec.More() {
		name, status, err := decodeNamed(dec)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("status %q is duplicate", name)
		}
		seen[name] = true
		set = set.With(name, status)
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	*s = set
	return nil
}

func decodeNamed(dec *json.Decoder) (string, Status, error) {
	var status Status
	token, err := dec.Token()
	if err != nil {
		return "", status, err
	}
	name, _ := token.(string) // a key is always a string
	if err := dec.Decode(&status); err != nil {
		return "", status, fmt.Errorf("status %q: %w", name, err)
	}
	return name, status, nil
}
