package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// missing describes a value that nothing provides, with a hint at similar ones.
func (s *scope) missing(k key) string {
	problem := fmt.Sprintf("missing type %v", k)
	if hint := s.hint(k); hint != "" {
		problem += " (" + hint + ")"
	}
	return problem
}

// hint names what is provided instead of k.
func (s *scope) hint(k key) string {
	for _, other := range s.graph.scopes {
		if made := other.offers[k]; len(made) > 0 {
			return fmt.Sprintf("it is private to %v, where %v makes it", other, made[0])
		}
	}
	if lacksIn(k.typ) {
		return "embed cell.In in it, for its fields to be injected"
	}
	if hint := s.implementation(k); hint != "" {
		return hint
	}
	if hint := s.suppliedMaker(k); hint != "" {
		return hint
	}
	return s.similar(k)
}

// suppliedMaker names visible functions that were supplied as values, but make k.
func (s *scope) suppliedMaker(k key) string {
	found := s.seen(func(other key) bool {
		return other.typ.Kind() == reflect.Func && s.find(other)[0].verb == "supply" &&
			slices.ContainsFunc(s.graph.signatureOf(other.typ).makes, func(m made) bool { return m.key == k })
	})
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("there is a %s, supplied as a value: did you mean cell.Provide?", strings.Join(found, ", a "))
}

// implementation names visible values that implement the interface k.
func (s *scope) implementation(k key) string {
	if k.typ.Kind() != reflect.Interface || k.typ.NumMethod() == 0 {
		return ""
	}
	found := s.seen(func(other key) bool {
		return other.group == "" && other.name == k.name && other.typ.Implements(k.typ)
	})
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("its constructor has to return that type: there is a %s, which implements it", strings.Join(found, ", a "))
}

// similar names visible values that differ from k only in pointer, name, group or package.
func (s *scope) similar(k key) string {
	found := s.seen(func(other key) bool {
		return bare(other.typ).Name() == bare(k.typ).Name() && (other.typ == k.typ || bare(k.typ).Name() != "")
	})
	if len(found) == 0 {
		return ""
	}
	return "there is a " + strings.Join(found, ", a ")
}

func bare(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// seen lists the visible values that like selects, with their constructors.
func (s *scope) seen(like func(key) bool) []string {
	var found []string
	for at := s; at != nil; at = at.parent {
		for k, made := range at.offers {
			if like(k) {
				found = append(found, fmt.Sprintf("%v of %s (%v)", k, made[0].name, made[0].at))
			}
		}
	}
	slices.Sort(found)
	return found
}

// maxKnown is the number of known names listed in an error when none resembles the mistyped one.
const maxKnown = 10

// meant returns the closest match for a mistyped name or, if there is none, all names if they are few.
func meant(name string, all []string) []string {
	if best, ok := nearest(name, all, min(3, len(name)/2)); ok {
		return []string{best}
	}
	if len(all) > maxKnown {
		return nil
	}
	return all
}

// nearest returns the closest match for a name whose distance is at most limit.
func nearest(name string, all []string, limit int) (best string, ok bool) {
	var row []int
	for _, candidate := range all {
		if d := len(candidate) - len(name); d > limit || -d > limit {
			continue
		}
		row = slices.Grow(row[:0], len(candidate)+1)[:len(candidate)+1]
		if d := distance(name, candidate, limit, row); d <= limit {
			best, ok, limit = candidate, true, d-1
		}
	}
	return best, ok
}

// Meant returns the name that another one is or is a misspelling of: two adjacent letters are swapped, or as many as limit are wrong,
// missing or too many.
func Meant(name string, all []string, limit int) (best string, ok bool) {
	for _, candidate := range all {
		if swapped(name, candidate) {
			return candidate, true
		}
	}
	return nearest(name, all, limit)
}

// swapped reports whether a becomes b when two adjacent bytes change places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// distance returns the Levenshtein distance of a and b in bytes, or some number above limit if it exceeds that. The length of row
// must be len(b)+1.
func distance(a, b string, limit int, row []int) int {
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		from, to := max(0, i-limit), min(len(b), i+limit+1) // the other cells exceed the limit
		diagonal, least := row[from], limit+1
		row[from]++
		for j := from; j < to; j++ {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
			least = min(least, row[j+1])
		}
		if least > limit && row[from] > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
