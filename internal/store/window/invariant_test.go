package window_test

import (
	"strings"
	"testing"

	"github.com/statehive/statehive/internal/store/window"
)

// numbered is a window of rows that know their revision, and are dead or not.
type numbered struct {
	window window.Window[row]
	dead   map[uint64]bool
}

type row struct{ revision uint64 }

func (n *numbered) append(deletedToo bool, count int) {
	var records []window.Record[row]
	for i := range count {
		r := window.Record[row]{Row: &row{n.window.Head() + uint64(i) + 1}}
		if deletedToo && i%3 == 2 {
			r = window.Record[row]{Row: &row{n.window.Head() + uint64(i)}, Deleted: true}
		}
		records = append(records, r)
	}
	n.window = n.window.Append(records, start)
}

func (n *numbered) bury(revision uint64) {
	n.dead[revision] = true
	n.window = n.window.Bury(revision)
}

func (n *numbered) violation() error {
	return n.window.Violation(func(r *row) uint64 { return r.revision }, func(r *row) bool { return n.dead[r.revision] })
}

func newNumbered() *numbered {
	n := &numbered{dead: map[uint64]bool{}}
	n.append(false, 300)
	n.bury(1)
	n.window = n.window.Trim(window.Bounds{Passed: n.window.Head(), Records: 1000})
	n.append(true, 17_000)
	n.bury(301)
	n.bury(16_001)
	return n
}

func TestTheCheckOfAWindowFindsWhatIsBroken(t *testing.T) {
	for want, corrupt := range map[string]func(n *numbered){
		"dead rows, it has":      func(n *numbered) { n.window = n.window.Bury(400) },
		"is recorded as that of": func(n *numbered) { n.window = n.window.Append([]window.Record[row]{{Row: &row{7}}}, start) },
		"has the row of revision": func(n *numbered) {
			n.window = n.window.Append([]window.Record[row]{{Row: &row{1 << 40}, Deleted: true}}, start)
		},
		"has no row":             func(n *numbered) { n.window = n.window.Append([]window.Record[row]{{Deleted: true}}, start) },
		"are counted, there are": func(n *numbered) { n.window = n.window.Miscounted() },
		"neither a row nor":      func(n *numbered) { n.window = n.window.WithoutNewestDelete() },
		"is lost, the newest":    func(n *numbered) { n.window = n.window.Losing(1 << 40) },
		"comes after":            func(n *numbered) { n.window = n.window.Losing(n.window.Head() - 10) },
		"is there: false":        func(n *numbered) { n.window = n.window.WithoutFirstChunk() },
		"behind their end":       func(n *numbered) { n.window = n.window.BehindItsEnd() },
	} {
		t.Run(want, func(t *testing.T) {
			n := newNumbered()
			if err := n.violation(); err != nil {
				t.Fatalf("before anything is broken: %v", err)
			}
			corrupt(n)
			if err := n.violation(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		})
	}
}
