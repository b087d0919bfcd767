package enginetest

import (
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// keptSequence is a sequence that was asked for inside a transaction, and what
// it should yield whatever comes after.
type keptSequence struct {
	sequence iter.Seq2[[]byte, int]
	then     model
	want     []string
}

// keep asks for one sequence: another one could save it from the writes to come.
func keep(t *rapid.T, r engine.Reader[int], m model) keptSequence {
	m = maps.Clone(m)
	from, sorted := keys().Draw(t, "from"), m.sorted()
	switch rapid.IntRange(0, 3).Draw(t, "query") {
	case 0:
		return keptSequence{r.Prefix([]byte(from)), m, sorted.withPrefix(from)}
	case 1:
		return keptSequence{r.LowerBound([]byte(from)), m, sorted.from(from)}
	case 2:
		return keptSequence{r.PrefixReverse([]byte(from)), m, reversed(sorted.withPrefix(from))}
	default:
		return keptSequence{r.BelowReverse([]byte(from)), m, sorted.belowReverse(from)}
	}
}

func (k keptSequence) check() error {
	var keys [][]byte
	for key := range k.sequence {
		keys = append(keys, key)
		if len(keys) == 2 {
			break // leaving early must not spoil the next run
		}
	}
	if err := k.then.differs(k.sequence, k.want); err != nil {
		return err
	}
	for i, key := range keys {
		if string(key) != k.want[i] {
			return fmt.Errorf("the key %s became %s", brief(k.want[i]), brief(string(key)))
		}
	}
	return nil
}

// testKeptSequences keeps what was asked for at many moments of transactions that
// go on, are committed or dropped.
func testKeptSequences(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		var kept []keptSequence
		for range rapid.IntRange(1, 3).Draw(t, "transactions") {
			txn, want := h.newest().tree.Txn(), maps.Clone(h.newest().want)
			for range rapid.IntRange(1, 10).Draw(t, "moments") {
				h.continues(t, txn, want, rapid.IntRange(0, 6).Draw(t, "writes"))
				kept = append(kept, keep(t, txn, want))
			}
			if rapid.Bool().Draw(t, "commit") {
				tree := txn.Commit()
				txn.Notify()
				h.versions = append(h.versions, version{tree, want})
			}
			for i, k := range kept {
				must(t, fmt.Sprintf("sequence %d", i), k.check())
			}
		}
	})
}

// testWatchesOfEveryMoment takes watches while a transaction is open, when it is
// committed but not announced, and after that.
func testWatchesOfEveryMoment(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		ws := &watchers{}
		watch := func(v version, moment string) {
			for _, key := range rapid.SliceOfN(keys(), 0, 4).Draw(t, moment) {
				ws.open = append(ws.open, watchKey(v, key), watchPrefix(v, key))
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			base := h.newest()
			watch(base, "before")
			txn, want := h.write(t, rapid.IntRange(0, 5).Draw(t, "first writes"))
			watch(base, "inside")
			h.continues(t, txn, want, rapid.IntRange(0, 5).Draw(t, "more writes"))
			watch(base, "before the commit")
			tree := txn.Commit()
			next := version{tree, want}
			watch(base, "before the notification")
			watch(next, "of the new version")
			for _, w := range ws.open {
				if w.closed() {
					t.Fatalf("%v closed before notify", w)
				}
			}
			txn.Notify()
			must(t, "notified", ws.settle(want))
			watch(base, "late")
			must(t, "late", ws.settle(want))
			h.versions = append(h.versions, next)
		}
	})
}

// settle checks that every watch whose result is another one in m has closed,
// and forgets those that have.
func (ws *watchers) settle(m model) error {
	var open []*watcher
	for _, w := range ws.open {
		switch {
		case w.closed():
		case w.changed(m):
			return fmt.Errorf("%v did not close", w)
		default:
			open = append(open, w)
		}
	}
	ws.open = open
	return nil
}

// testWatchesOfLongKeys watches keys, present or not, that differ only far from
// their beginning.
func testWatchesOfLongKeys(t *testing.T, newTree func() engine.Tree[int]) {
	long := strings.Repeat("x", 70_000)
	watched := []string{"", "x", long, long + "\x00", long + "y", long[:65_535], long[:65_536], long[:65_537], long[:300] + "y", long + "yz"}
	for i, key := range watched {
		m := model{long: 1, long + "y": 2, long[:65_536]: 3, "z": 4}
		v := version{load(newTree, m), m}
		ws := &watchers{}
		for _, key := range watched {
			ws.open = append(ws.open, watchKey(v, key), watchPrefix(v, key))
		}
		for _, step := range []func(txn engine.Txn[int], m model){
			func(txn engine.Txn[int], m model) { txn.Insert([]byte(key), 100+i); m[key] = 100 + i },
			func(txn engine.Txn[int], m model) { txn.Delete([]byte(key)); delete(m, key) },
		} {
			txn, want := v.tree.Txn(), maps.Clone(v.want)
			step(txn, want)
			next, err := ws.commit(txn, want)
			must(t, brief(key), err)
			v = next
			must(t, brief(key), v.want.check(v.tree, watched...))
		}
	}
}

// concurrentKeys are few, and some are prefixes of others, so that nodes are
// split and merged all the time.
var concurrentKeys = []string{"", "a", "ab", "abc", "abd", "abcdefgh", "b", "b\x00", "c\xff"}

// testWatchesTakenDuringCommits has readers ask for watches of the version that
// is being replaced at that moment.
func testWatchesTakenDuringCommits(t *testing.T, newTree func() engine.Tree[int]) {
	const commits = 3_000
	var current atomic.Pointer[version]
	current.Store(&version{newTree(), model{}})
	var last atomic.Bool
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() {
			for i := n; !last.Load(); i++ {
				v := current.Load()
				key := concurrentKeys[i%len(concurrentKeys)]
				for _, w := range []*watcher{watchKey(*v, key), watchPrefix(*v, key)} {
					if err := w.awaits(v, &current, &last); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range commits {
		v := current.Load()
		txn, want := v.tree.Txn(), maps.Clone(v.want)
		key := concurrentKeys[(i*i+i/7)%len(concurrentKeys)]
		if i%3 == 2 {
			txn.Delete([]byte(key))
			delete(want, key)
		} else {
			txn.Insert([]byte(key), i+1)
			want[key] = i + 1
		}
		tree := txn.Commit()
		runtime.Gosched() // whoever was woken too early looks now
		current.Store(&version{tree, want})
		txn.Notify()
	}
	last.Store(true)
	readers.Wait()
}

// awaits waits for a watch of a version, or for the end of all commits, by when
// it has closed if it had to. Who wakes up can read a newer version.
func (w *watcher) awaits(v *version, current *atomic.Pointer[version], last *atomic.Bool) error {
	for !w.closed() {
		if last.Load() {
			if w.changed(current.Load().want) && !w.closed() {
				return fmt.Errorf("%v did not close", w)
			}
			return nil
		}
		runtime.Gosched()
	}
	if current.Load() == v {
		return fmt.Errorf("%v closed while its version was the newest", w)
	}
	return nil
}
