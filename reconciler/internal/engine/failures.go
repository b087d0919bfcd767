package engine

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"
	"sync"
	"time"
)

const (
	// maxGroups bounds the number of groups, including the one of all other errors.
	maxGroups = 1000
	// maxReason bounds the text of a group, in bytes.
	maxReason = 500
	// minWord is the shortest word of a key that is replaced in an error's text.
	minWord = 3

	// otherErrors is the text of the group for rows that fit into no other.
	otherErrors = "other errors"
	// keyPlaceholder stands in the text of a group for the keys of its rows.
	keyPlaceholder = "<key>"
)

// FailureGroup describes the rows that fail for the same reason: in the same operation, with the
// same first line of the error's text.
//
// Texts that differ only in the key are considered the same: <key> replaces the text of the row's
// primary key, and each of its words of at least three characters. There are at most 1000 groups.
// Rows that fit into none of them are in the last one, which has the error "other errors" and no
// operation.
type FailureGroup struct {
	Operation string    `json:"operation"` // update or delete
	Error     string    `json:"error"`
	Count     int       `json:"count"`    // number of rows
	Examples  []string  `json:"examples"` // the first keys in order, as text; at most three
	Since     time.Time `json:"since"`    // since when the group has had rows
}

// FailureGroups returns the rows whose last operation failed, grouped by reason, the largest group
// first. It neither reads the table nor waits for the reconciler, so it works even when that
// hangs. It returns nothing while the reconciler is not running.
func (r *Engine) FailureGroups() []FailureGroup { return r.failures.list() }

// failures are the rows whose last operation failed, in groups. Only the loop changes them; other
// goroutines may read them.
type failures struct {
	mu      sync.Mutex
	rows    map[string]*failure // by encoded key
	groups  map[reason]*failureGroup
	other   *failureGroup          // nil if it has no rows
	singles list.List              // the groups of one row, by when they became that
	largest ranking[*failureGroup] // groups with news, by number of news; without other
	news    int                    // rows that are news for health
	lastSeq uint64                 // the last newsSeq assigned
}

func newFailures() *failures {
	return &failures{
		rows: map[string]*failure{}, groups: map[reason]*failureGroup{},
		largest: ranking[*failureGroup]{before: bySize, at: func(g *failureGroup) *int { return &g.rank }},
	}
}

// failure is a row whose last operation has failed.
type failure struct {
	key, name string // the encoded key, and its text
	why       reason
	err       error
	since     time.Time // it has been failing
	newsSeq   uint64    // order in which failures became news for health; 0: not news
	confirmed bool      // the outcome was written and was not outdated

	group        *failureGroup
	atKey, atNew int // its positions in the group's rankings
}

// what returns the operation and the row as text.
func (f *failure) what() string { return f.why.operation + " " + f.name }

// failureGroup is the rows that fail for a reason.
type failureGroup struct {
	why    reason
	since  time.Time
	rows   ranking[*failure] // by key
	news   ranking[*failure] // those that are news, by newsSeq
	single *list.Element     // its element of singles, or nil
	rank   int               // its position in largest
}

// fails records that a row has failed, and reports whether it was not failing before.
func (s *failures) fails(key, name string, why reason, err error, now time.Time) (f *failure, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = s.rows[key]
	if f == nil {
		f, first = &failure{key: key, name: name, since: now, atKey: -1, atNew: -1}, true
		s.rows[key] = f
	}
	known := f.why == why && f.group != nil
	f.why, f.err = why, err
	if to := s.groupLocked(why, known, now); to != f.group {
		s.moveLocked(f, to)
	}
	return f, first
}

// groupLocked returns the group for a reason. At the limit of groups, a new reason displaces the
// oldest group of a single row, so that a reason shared by many rows always has its group.
func (s *failures) groupLocked(why reason, known bool, now time.Time) *failureGroup {
	if g := s.groups[why]; g != nil {
		return g
	}
	if len(s.groups) >= maxGroups-1 {
		oldest := s.singles.Front()
		if known || oldest == nil {
			return s.otherLocked(now)
		}
		s.moveLocked(oldest.Value.(*failureGroup).rows.list[0], s.otherLocked(now))
	}
	g := newFailureGroup(why, now)
	s.groups[why] = g
	return g
}

func (s *failures) otherLocked(now time.Time) *failureGroup {
	if s.other == nil {
		s.other = newFailureGroup(reason{text: otherErrors}, now)
	}
	return s.other
}

func newFailureGroup(why reason, now time.Time) *failureGroup {
	return &failureGroup{
		why: why, since: now, rank: -1,
		rows: ranking[*failure]{before: byKey, at: func(f *failure) *int { return &f.atKey }},
		news: ranking[*failure]{before: bySeq, at: func(f *failure) *int { return &f.atNew }},
	}
}

func byKey(a, b *failure) int { return cmp.Compare(a.key, b.key) }
func bySeq(a, b *failure) int { return cmp.Compare(a.newsSeq, b.newsSeq) }

// bySize orders groups by how many of their rows are news, and then by their oldest news.
func bySize(a, b *failureGroup) int {
	if n := cmp.Compare(len(b.news.list), len(a.news.list)); n != 0 {
		return n
	}
	return bySeq(a.news.list[0], b.news.list[0])
}

// moveLocked moves a row from its group to another; nil means none.
func (s *failures) moveLocked(f *failure, to *failureGroup) {
	if from := f.group; from != nil {
		s.largest.remove(from)
		from.rows.remove(f)
		from.news.remove(f)
		s.resizedLocked(from)
	}
	if f.group = to; to == nil {
		return
	}
	s.largest.remove(to)
	to.rows.add(f)
	if f.newsSeq != 0 {
		to.news.add(f)
	}
	s.resizedLocked(to)
}

// resizedLocked updates largest, singles and groups after a change of a group's size. The group
// must not be in largest.
func (s *failures) resizedLocked(g *failureGroup) {
	n := len(g.rows.list)
	if g != s.other && len(g.news.list) > 0 {
		s.largest.add(g)
	}
	switch {
	case g == s.other:
		if n == 0 {
			s.other = nil
		}
		return
	case n == 0:
		delete(s.groups, g.why)
	}
	switch {
	case n == 1 && g.single == nil:
		g.single = s.singles.PushBack(g)
	case n != 1 && g.single != nil:
		s.singles.Remove(g.single)
		g.single = nil
	}
}

// becomesNews makes a failure news, and reports whether it was not before.
func (s *failures) becomesNews(f *failure) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.newsSeq != 0 {
		return false
	}
	s.lastSeq++
	s.news++
	f.newsSeq = s.lastSeq
	s.largest.remove(f.group)
	f.group.news.add(f)
	s.resizedLocked(f.group)
	return true
}

// fine records that a row no longer fails, and reports whether its failure was news.
func (s *failures) fine(key string) (wasNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.rows[key]
	if f == nil {
		return false
	}
	delete(s.rows, key)
	s.moveLocked(f, nil)
	if f.newsSeq != 0 {
		s.news--
	}
	return f.newsSeq != 0
}

// get returns the failure of a row, or nil.
func (s *failures) get(key string) *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[key]
}

// of returns how many rows fail for a reason, and examples of them.
func (s *failures) of(why reason) (rows int, examples []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[why]; g != nil {
		return len(g.rows.list), namesOf(g.rows.first())
	}
	return 0, nil
}

// count returns how many rows fail, and for how many reasons.
func (s *failures) count() (rows, groups int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups = len(s.groups)
	if s.other != nil {
		groups++
	}
	return len(s.rows), groups
}

// clear forgets all rows.
func (s *failures) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
	clear(s.groups)
	s.other, s.news, s.largest.list = nil, 0, nil
	s.singles.Init()
}

// list returns all groups, those with most rows first.
func (s *failures) list() (all []FailureGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		all = append(all, g.show())
	}
	slices.SortFunc(all, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Operation, b.Operation))
	})
	if s.other != nil {
		all = append(all, s.other.show())
	}
	return all
}

func (g *failureGroup) show() FailureGroup {
	return FailureGroup{
		Operation: g.why.operation, Error: g.why.text, Count: len(g.rows.list), Examples: namesOf(g.rows.first()), Since: g.since,
	}
}

// worst returns the groups with most news, the number of all rows that are news, and how many of
// these are in other groups.
func (s *failures) worst() (found []groupError, all, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more = s.news
	for _, g := range s.largest.first() {
		first := g.news.first()
		found = append(found, groupError{g.why, len(g.news.list), namesOf(first), *first[0]})
		more -= len(g.news.list)
	}
	return found, s.news, more
}

func namesOf(rows []*failure) []string {
	names := make([]string, len(rows))
	for i, f := range rows {
		names[i] = f.name
	}
	return names
}

// shown is how many of the first items of a ranking are available.
const shown = 3

// ranking is a heap that can return its first few items in order. Adding and removing an item
// takes logarithmic time.
type ranking[T any] struct {
	list   []T
	before func(a, b T) int
	at     func(T) *int // where an item keeps its position; -1 if it is in no ranking
}

// add adds an item.
func (r *ranking[T]) add(item T) { heap.Push(r, item) }

// remove removes an item if it is in the ranking.
func (r *ranking[T]) remove(item T) {
	if at := *r.at(item); at >= 0 {
		heap.Remove(r, at)
	}
}

// first returns the first items, in order.
func (r *ranking[T]) first() []T {
	// The nth item in order is at most n-1 levels below the top.
	top := slices.Clone(r.list[:min(len(r.list), 1<<shown-1)])
	slices.SortFunc(top, r.before)
	return top[:min(len(top), shown)]
}

// Len implements [heap.Interface].
func (r *ranking[T]) Len() int { return len(r.list) }

// Less implements [heap.Interface].
func (r *ranking[T]) Less(i, j int) bool { return r.before(r.list[i], r.list[j]) < 0 }

// Swap implements [heap.Interface].
func (r *ranking[T]) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	*r.at(r.list[i]), *r.at(r.list[j]) = i, j
}

// Push implements [heap.Interface].
func (r *ranking[T]) Push(x any) {
	item := x.(T)
	*r.at(item) = len(r.list)
	r.list = append(r.list, item)
}

// Pop implements [heap.Interface].
func (r *ranking[T]) Pop() any {
	last := len(r.list) - 1
	item := r.list[last]
	r.list[last] = *new(T)
	r.list = r.list[:last]
	*r.at(item) = -1
	return item
}
