package hold

import (
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// tally has the rows of a table that count as changed, each once, by encoded key. The one with the deletes of a [Member] also has
// the rows that deletes of others have stranded: the target has lost them just the same. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	window   time.Duration
	rows     map[string]counted  // changed or stranded within the window, or to be changed
	stranded int                 // those of rows that are stranded, and not to be changed
	ahead    map[string]struct{} // rows to be changed whose change is still in the feed
	past     []change            // the changes within the window, in order of time
	before   lowest              // how many rows there were
	kept     bool                // nothing is forgotten
}

// counted is a row that counts as changed. The zero value does not.
type counted struct {
	at       time.Time // when it was last changed or stranded; zero: it was not
	stranded bool      // at is when it was stranded
	wanted   bool      // it is going to be changed
}

// change is a row that was changed or stranded.
type change struct {
	key string
	at  time.Time
}

func newTally() *tally {
	return &tally{rows: map[string]counted{}, ahead: map[string]struct{}{}}
}

// setWindow sets how long a change counts.
func (t *tally) setWindow(window time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window, t.before.window = window, window
}

func (t *tally) setLocked(key string, row counted) {
	if old := t.rows[key]; old.stranded && !old.wanted {
		t.stranded--
	}
	if row == (counted{}) {
		delete(t.rows, key)
		return
	}
	t.rows[key] = row
	if row.stranded && !row.wanted {
		t.stranded++
	}
}

// want counts a row that is going to be changed.
func (t *tally) want(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ahead, key)
	row := t.rows[key]
	row.wanted = true
	t.setLocked(key, row)
}

// unwant records that a row is no longer going to be changed. An earlier change still counts.
func (t *tally) unwant(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[key]
	row.wanted = false
	t.setLocked(key, row)
}

// change counts a row that was changed.
func (t *tally) change(key string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setLocked(key, counted{at: now})
	t.past = append(t.past, change{key, now})
}

// strand counts a row that was stranded.
func (t *tally) strand(key string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.rows[key]
	if row.stranded && now.Sub(row.at) < t.window/parts {
		return // it is known
	}
	t.setLocked(key, counted{at: now, stranded: true, wanted: row.wanted})
	t.past = append(t.past, change{key, now})
}

// expect counts a row whose change is still in the feed.
func (t *tally) expect(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.rows[key]; !known {
		t.ahead[key] = struct{}{}
	}
}

// forgetAhead forgets the rows that expect counted, and reports whether there were any.
func (t *tally) forgetAhead() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	some := len(t.ahead) > 0
	clear(t.ahead)
	return some
}

// keep sets whether changes count on for longer than the window.
func (t *tally) keep(kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = kept
}

// expire forgets changes older than the window.
func (t *tally) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before.expire(now)
	if t.kept {
		return
	}
	n := 0
	for ; n < len(t.past) && now.Sub(t.past[n].at) > t.window; n++ {
		old := t.past[n]
		if row := t.rows[old.key]; row.at.Equal(old.at) {
			t.setLocked(old.key, counted{wanted: row.wanted})
		}
	}
	if t.past = t.past[n:]; len(t.past) == 0 {
		t.past = nil
	}
}

// len returns the number of rows that count.
func (t *tally) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows) + len(t.ahead)
}

// strandedRows returns how many of the rows that count are stranded, and not to be changed.
func (t *tally) strandedRows() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stranded
}

// with returns how many rows count together with others.
func (t *tally) with(lost map[string]*store.Entry, others map[string]bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.rows) + len(t.ahead)
	counts := func(key string) bool {
		_, counted := t.rows[key]
		_, ahead := t.ahead[key]
		return counted || ahead
	}
	for key := range lost {
		if !counts(key) {
			n++
		}
	}
	for key := range others {
		if lost[key] == nil && !counts(key) {
			n++
		}
	}
	return n
}

// done returns the rows that were changed or stranded.
func (t *tally) done() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := map[string]bool{}
	for key, row := range t.rows {
		if !row.at.IsZero() {
			keys[key] = true
		}
	}
	return keys
}

// found records how many rows there are.
func (t *tally) found(rows int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before.add(rows, now)
}

// allowed returns how many rows a limit allows to change, given the number of rows.
func (t *tally) allowed(limit ChangeLimit, rows int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.before.of(rows)
	if part := limit.of(before); part < before {
		return part
	}
	return limit.of(rows) // even if all of the rows that were there before are changed
}
