package window_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/internal/store/window"
)

// change is what a revision did, in the model.
type change struct {
	row     *int
	deleted bool
	at      time.Time
}

// view is a window and what it should hold.
type view struct {
	window  window.Window[int]
	changes []change // by revision, from 1
	base    uint64   // rows up to here are gone
	lost    uint64   // and deletes up to here
}

func (v view) check(t *rapid.T) {
	w := v.window
	if w.Head() != uint64(len(v.changes)) || w.Base() != v.base {
		t.Fatalf("window from %d to %d, expected %d to %d", w.Base(), w.Head(), v.base, len(v.changes))
	}
	for rev := v.lost + 1; rev <= w.Head(); rev++ {
		if rev > w.LostDeletes() {
			break
		}
		if v.changes[rev-1].deleted {
			t.Fatalf("the delete at %d counts as lost, the newest lost one is %d", rev, v.lost)
		}
	}
	v.checkRecords(t)
	v.checkDeletes(t)
}

func (v view) checkRecords(t *rapid.T) {
	after := max(v.base, v.lost)
	next := after
	for rev, got := range v.window.Records(after, v.window.Head()) {
		next++
		want := v.changes[next-1]
		if rev != next || got.Row != want.row || got.Deleted != want.deleted {
			t.Fatalf("revision %d is %+v, expected %d: %+v", rev, got, next, want)
		}
		if at, known := v.window.Committed(rev); !known || !at.Equal(want.at) {
			t.Fatalf("revision %d was committed at %v (known: %t), expected %v", rev, at, known, want.at)
		}
	}
	if next < v.window.Head() {
		t.Fatalf("the records end at %d, expected %d", next, v.window.Head())
	}
	if _, known := v.window.Committed(v.base); known {
		t.Fatal("it is known when a dropped revision was committed")
	}
}

func (v view) checkDeletes(t *rapid.T) {
	rev := v.lost
	for got, row := range v.window.Deletes(v.lost, v.window.Head()) {
		for rev++; !v.changes[rev-1].deleted; rev++ {
		}
		if got != rev || row != v.changes[rev-1].row {
			t.Fatalf("a delete at %d, expected one at %d", got, rev)
		}
	}
	for rev++; rev <= v.window.Head(); rev++ {
		if v.changes[rev-1].deleted {
			t.Fatalf("the delete at %d was not yielded", rev)
		}
	}
}

func TestViewsHoldTheirRecordsWhateverComesAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := []view{{}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			v := views[len(views)-1]
			switch rapid.SampledFrom([]string{"append", "append", "append", "trim", "trim", "start"}).Draw(t, "step") {
			case "append":
				v = v.appends(t)
			case "trim":
				v = v.trims(t)
			case "start":
				v = v.starts(t)
			}
			views = append(views, v)
		}
		for _, v := range views {
			v.check(t)
		}
	})
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// drawn returns changes and the same as records.
func (v view) drawn(t *rapid.T) ([]change, []window.Record[int]) {
	n := rapid.SampledFrom([]int{0, 1, 2, 100, 255, 256, 257, 700, 700, 700, 700, 17_000}).Draw(t, "records")
	every := rapid.IntRange(1, 300).Draw(t, "every nth is a delete")
	at := start.Add(time.Duration(len(v.changes)) * time.Millisecond)
	changes := make([]change, n)
	records := make([]window.Record[int], n)
	for i := range n {
		changes[i] = change{row: new(int), deleted: i%every == 0, at: at}
		records[i] = window.Record[int]{Row: changes[i].row, Deleted: changes[i].deleted}
	}
	return changes, records
}

func (v view) append(more []change) view {
	v.changes = append(v.changes[:len(v.changes):len(v.changes)], more...)
	return v
}

// appends adds records and buries what some of them replace.
func (v view) appends(t *rapid.T) view {
	changes, records := v.drawn(t)
	if len(records) > 0 {
		v.window = v.window.Append(records, changes[0].at)
	}
	v = v.append(changes)
	for range rapid.IntRange(0, 300).Draw(t, "buried") {
		v.window = v.window.Bury(rapid.Uint64Range(0, v.window.Head()).Draw(t, "revision"))
	}
	return v
}

// starts makes changes while nobody follows, which no window has.
func (v view) starts(t *rapid.T) view {
	changes, _ := v.drawn(t)
	v = v.append(changes)
	v.base = uint64(len(v.changes))
	v.lost = v.newestDelete(v.base)
	v.window = window.StartingAt[int](v.base, v.lost)
	if !v.window.Empty() || v.window.DeleteCount() != 0 || v.window.LostDeletes() != v.lost {
		t.Fatal("a window that starts holds something")
	}
	return v
}

// trims accepts what the window makes of the bounds if it was allowed to.
func (v view) trims(t *rapid.T) view {
	bounds := window.Bounds{
		Passed:  rapid.Uint64Range(0, v.window.Head()).Draw(t, "passed"),
		Dead:    rapid.SampledFrom([]int{0, 100, 100_000}).Draw(t, "dead"),
		Deletes: rapid.SampledFrom([]int{0, 100, 100_000}).Draw(t, "deletes"),
		Records: rapid.SampledFrom([]int{0, 10, 10_000}).Draw(t, "budget"),
	}
	v.window = v.window.Trim(bounds)
	base, lost := v.window.Base(), v.window.LostDeletes()
	needless := bounds.Dead == 100_000 && bounds.Deletes == 100_000
	if base < v.base || lost < v.lost || needless && (base > max(v.base, bounds.Passed) || lost > max(v.lost, bounds.Passed)) {
		t.Fatalf("%+v moved the base from %d to %d, the lost deletes from %d to %d", bounds, v.base, base, v.lost, lost)
	}
	dropped := base - v.base
	if allowed := uint64(256 + 8*bounds.Records); dropped > allowed {
		t.Fatalf("%d records were dropped at once, allowed are %d", dropped, allowed)
	}
	if dropped+512 <= 8*uint64(bounds.Records) && base+256 <= bounds.Passed {
		t.Fatalf("the base is %d although all have passed %d", base, bounds.Passed)
	}
	v.base, v.lost = base, v.newestDelete(lost)
	if v.lost != lost {
		t.Fatalf("lost deletes up to %d, which is not a delete", lost)
	}
	return v
}

// newestDelete is that of the revisions up to one.
func (v view) newestDelete(upTo uint64) uint64 {
	for ; upTo > 0 && !v.changes[upTo-1].deleted; upTo-- {
	}
	return upTo
}

func records(n int, deleted bool) []window.Record[int] {
	all := make([]window.Record[int], n)
	for i := range all {
		all[i] = window.Record[int]{Row: new(int), Deleted: deleted}
	}
	return all
}

func TestWhatAllHavePassedIsDropped(t *testing.T) {
	var w window.Window[int]
	for range 100 {
		w = w.Trim(window.Bounds{Passed: w.Head(), Dead: 1 << 20, Deletes: 1 << 20, Records: 1_000})
		w = w.Append(records(500, true), start)
		w = w.Append(records(500, false), start)
	}
	if kept := w.Head() - w.Base(); kept > 1_000+256 {
		t.Errorf("%d records kept for nobody", kept)
	}
	if rows, deletes := w.Chunks(); rows > 6 || deletes > 4 {
		t.Errorf("%d and %d chunks are kept", rows, deletes)
	}
}

func TestUpdatesDoNotPushOutDeletes(t *testing.T) {
	var w window.Window[int]
	w = w.Append(records(1_000, true), start)
	for range 1_000 {
		w = w.Trim(window.Bounds{Dead: 2_000, Deletes: 2_000, Records: 1_000})
		w = w.Append(records(1_000, false), start)
		for i := range uint64(1_000) {
			w = w.Bury(w.Head() - i)
		}
	}
	if w.LostDeletes() != 0 {
		t.Errorf("deletes up to %d were lost to updates", w.LostDeletes())
	}
	if kept := w.Head() - w.Base(); kept > 3_000+256 {
		t.Errorf("%d dead rows kept, the bound is 2,000", kept)
	}
	found := 0
	for range w.Deletes(0, w.Head()) {
		found++
	}
	if found != 1_000 {
		t.Errorf("%d deletes are left of 1,000", found)
	}
}

func TestDeletesHaveTheirOwnBound(t *testing.T) {
	var w window.Window[int]
	for range 100 {
		w = w.Trim(window.Bounds{Dead: 1 << 20, Deletes: 2_000, Records: 1_000})
		w = w.Append(records(1_000, true), start)
	}
	if w.Base() != 0 {
		t.Errorf("the base is %d: too many deletes cost rows", w.Base())
	}
	if kept := w.Head() - w.LostDeletes(); kept > 4_000+256 || kept < 2_000 {
		t.Errorf("%d deletes kept, the bound is 2,000", kept)
	}
}

func TestALargeCommitDoesNotPushOutItsOwnDeletes(t *testing.T) {
	var w window.Window[int]
	bounds := window.Bounds{Dead: 1 << 20, Deletes: 2_000, Records: 100}
	w = w.Append(records(100, true), start)
	w = w.Trim(bounds).Append(records(10_000, true), start)
	for range 20 {
		w = w.Trim(bounds).Append(records(100, true), start)
	}
	if w.LostDeletes() > 256 {
		t.Errorf("deletes up to %d are lost", w.LostDeletes())
	}
	for range 20 {
		w = w.Trim(bounds).Append(records(100, true), start)
	}
	if w.LostDeletes() < 10_100 {
		t.Errorf("only the deletes up to %d were dropped", w.LostDeletes())
	}
}

// TestACommitPaysForItselfAlone counts what single-row commits copy and drop
// while a large window is being given up.
func TestACommitPaysForItselfAlone(t *testing.T) {
	var w window.Window[int]
	const large = 1 << 20
	w = w.Append(records(large, false), start)
	for i := range large {
		w = w.Bury(uint64(i) + 1)
	}
	one := records(1, false)
	moved, commits := w.Moved(), 0
	for ; w.Base() < large; commits++ {
		base, before := w.Base(), w.Moved()
		w = w.Trim(window.Bounds{Dead: 100, Records: 1})
		if dropped := w.Base() - base; dropped > 256 {
			t.Fatalf("a commit of one row dropped %d", dropped)
		}
		if copied := w.Moved() - before; copied > 64+large/(64*256) {
			t.Fatalf("a commit of one row copied %d slots of the directory", copied)
		}
		w = w.Append(one, start)
		if commits > large {
			t.Fatal("the window is not given up")
		}
	}
	if perCommit := (w.Moved() - moved) / uint64(commits); perCommit > 66 {
		t.Errorf("a commit copied %d slots of the directory, on average", perCommit)
	}
}

func TestDirectoriesDoNotPinWhatWasDropped(t *testing.T) {
	var w window.Window[int]
	for range 1_000 {
		w = w.Trim(window.Bounds{Passed: max(w.Head(), 40_000) - 40_000, Dead: 1 << 20, Deletes: 1 << 20, Records: 1_000})
		w = w.Append(records(1_000, false), start)
		if rows, _ := w.Chunks(); rows > (40_000+1_000)/256+2 {
			t.Fatalf("%d chunks can be reached, for %d records", rows, w.Head()-w.Base())
		}
	}
}
