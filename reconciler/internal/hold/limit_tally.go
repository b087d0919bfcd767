package hold

import "time"

// tally has the rows of a table that count as changed, each once, by encoded key. It belongs to one goroutine.
type tally struct {
	window time.Duration
	rows   map[string]counted  // changed within the window, or to be changed
	ahead  map[string]struct{} // rows to be changed whose change is still in the feed
	past   []change            // the changes within the window, in order of time
	before lowest              // how many rows there were
	kept   bool                // nothing is forgotten
}

// counted is a row that counts as changed. The zero value does not.
type counted struct {
	at     time.Time // when it was last changed; zero: it was not
	wanted bool      // it is going to be changed
}

// change is a row that was changed.
type change struct {
	key string
	at  time.Time
}

// newTally returns a tally of changes that count for a window of time.
func newTally(window time.Duration) *tally {
	return &tally{window: window, rows: map[string]counted{}, ahead: map[string]struct{}{}, before: lowest{window: window}}
}

func (t *tally) set(key string, row counted) {
	if row == (counted{}) {
		delete(t.rows, key)
		return
	}
	t.rows[key] = row
}

// want counts a row that is going to be changed.
func (t *tally) want(key string) {
	delete(t.ahead, key)
	row := t.rows[key]
	row.wanted = true
	t.set(key, row)
}

// unwant records that a row is no longer going to be changed. An earlier change still counts.
func (t *tally) unwant(key string) {
	row := t.rows[key]
	row.wanted = false
	t.set(key, row)
}

// change counts a row that was changed.
func (t *tally) change(key string, now time.Time) {
	t.set(key, counted{at: now})
	t.past = append(t.past, change{key, now})
}

// expect counts a row whose change is still in the feed.
func (t *tally) expect(key string) {
	if _, known := t.rows[key]; !known {
		t.ahead[key] = struct{}{}
	}
}

// forgetAhead forgets the rows that expect counted, and reports whether there were any.
func (t *tally) forgetAhead() bool {
	some := len(t.ahead) > 0
	clear(t.ahead)
	return some
}

// keep sets whether changes count on for longer than the window.
func (t *tally) keep(kept bool) {
	t.kept = kept
}

// expire forgets changes older than the window.
func (t *tally) expire(now time.Time) {
	t.before.expire(now)
	if t.kept {
		return
	}
	n := 0
	for ; n < len(t.past) && now.Sub(t.past[n].at) > t.window; n++ {
		old := t.past[n]
		if row := t.rows[old.key]; row.at.Equal(old.at) {
			t.set(old.key, counted{wanted: row.wanted})
		}
	}
	if t.past = t.past[n:]; len(t.past) == 0 {
		t.past = nil
	}
}

// len returns the number of rows that count.
func (t *tally) len() int {
	return len(t.rows) + len(t.ahead)
}

// found records how many rows there are.
func (t *tally) found(rows int, now time.Time) {
	t.before.add(rows, now)
}

// allowed returns how many rows a limit allows to change, given the number of rows.
func (t *tally) allowed(limit ChangeLimit, rows int) int {
	before := t.before.of(rows)
	if part := limit.of(before); part < before {
		return part
	}
	return limit.of(rows) // even if all of the rows that were there before are changed
}
