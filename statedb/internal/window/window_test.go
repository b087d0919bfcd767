package window_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/internal/window"
)

// view is a window and what it should hold.
type view struct {
	window      window.Window[int]
	records     []window.Record[int] // by revision, from 1; those up to base are gone
	base        uint64
	lostDeletes uint64
}

func (v view) check(t *rapid.T) {
	w := v.window
	if w.Head() != uint64(len(v.records)) {
		t.Fatalf("head is %d, expected %d", w.Head(), len(v.records))
	}
	if w.Base() != v.base || w.LostDeletes() != v.lostDeletes {
		t.Fatalf("base %d, lost deletes %d; expected %d, %d", w.Base(), w.LostDeletes(), v.base, v.lostDeletes)
	}
	for rev := w.Base() + 1; rev <= w.Head(); rev++ {
		if got := w.At(rev); got != v.records[rev-1] {
			t.Fatalf("revision %d is %+v, expected %+v", rev, got, v.records[rev-1])
		}
	}
}

// forgets returns the view whose base is at most at the given revision.
func (v view) forgets(base uint64) view {
	for rev := v.base + 1; rev <= base; rev++ {
		if v.records[rev-1].Deleted {
			v.lostDeletes = rev
		}
	}
	v.base = max(v.base, base)
	return v
}

func TestViewsHoldTheirRecordsWhateverComesAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := []view{{}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			v := views[len(views)-1]
			switch rapid.SampledFrom([]string{"append", "append", "append", "drop", "skip"}).Draw(t, "step") {
			case "append":
				v = v.appends(records(t, v))
			case "drop":
				v = v.drops(t)
			case "skip":
				skipped := records(t, v)
				v.window = v.window.Skip(skipped)
				v.records = append(v.records[:len(v.records):len(v.records)], skipped...)
				v = v.forgets(uint64(len(v.records)))
			}
			v.check(t)
			views = append(views, v)
		}
		for _, v := range views {
			v.check(t)
		}
	})
}

func records(t *rapid.T, v view) []window.Record[int] {
	added := make([]window.Record[int], rapid.SampledFrom([]int{0, 1, 2, 100, 255, 256, 257, 700}).Draw(t, "records"))
	deletes := rapid.IntRange(1, 300).Draw(t, "every nth is a delete")
	for i := range added {
		added[i] = window.Record[int]{Entry: len(v.records) + i, Deleted: i%deletes == 0}
	}
	return added
}

func (v view) appends(added []window.Record[int]) view {
	v.window = v.window.Append(added)
	v.records = append(v.records[:len(v.records):len(v.records)], added...)
	return v
}

// drops asks for a base and accepts what the window makes of it: whole chunks,
// never more than was asked for, and all but the last one of them.
func (v view) drops(t *rapid.T) view {
	revision := rapid.Uint64Range(0, uint64(len(v.records))+300).Draw(t, "drop before")
	v.window = v.window.DropBefore(revision)
	base := v.window.Base()
	if base < v.base || base > max(v.base, revision) {
		t.Fatalf("dropping up to %d moved the base from %d to %d", revision, v.base, base)
	}
	if upTo := min(revision, uint64(len(v.records))); base+512 <= upTo {
		t.Fatalf("dropping up to %d kept everything after %d", upTo, base)
	}
	return v.forgets(base)
}

func TestDroppedRecordsAreFreed(t *testing.T) {
	var w window.Window[*int]
	for range 100 {
		w = w.Append(make([]window.Record[*int], 1_000))
		w = w.DropBefore(w.Head())
	}
	if kept := w.Head() - w.Base(); kept >= 256 {
		t.Errorf("%d records kept after dropping all", kept)
	}
}
