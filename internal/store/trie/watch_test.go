package trie

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// watcher holds one watch and what the watched result was.
type watcher struct {
	key    string
	prefix bool // everything that starts with key, not key alone
	was    uint64
	woken  <-chan struct{}
}

func watchKey(v version, key string, newest func() Tree) *watcher {
	return &watcher{key: key, was: fingerprint(v.want, key, false), woken: v.tree.Watch([]byte(key), newest)}
}

func watchPrefix(v version, prefix string, newest func() Tree) *watcher {
	return &watcher{key: prefix, prefix: true, was: fingerprint(v.want, prefix, true), woken: v.tree.WatchPrefix([]byte(prefix), newest)}
}

func (w *watcher) String() string {
	if w.prefix {
		return "the watch of prefix " + brief(w.key)
	}
	return "the watch of key " + brief(w.key)
}

func (w *watcher) closed() bool { return isClosed(w.woken) }

// changed reports whether m has another result than the one that was watched.
func (w *watcher) changed(m model) bool { return fingerprint(m, w.key, w.prefix) != w.was }

var seed = maphash.MakeSeed()

// fingerprint stands for what a query returns.
func fingerprint(m model, key string, prefix bool) uint64 {
	if !prefix {
		return uint64(m[key])
	}
	var sum uint64
	for k, value := range m {
		if strings.HasPrefix(k, key) {
			sum += maphash.String(seed, k) * uint64(value)
		}
	}
	return sum
}

// watchers are all watches that are still open, and how many woke up.
type watchers struct {
	open            []*watcher
	woken, needless int
}

// watch watches a key of a version and all that starts with it.
func (ws *watchers) watch(v version, key string, newest func() Tree) {
	ws.open = append(ws.open, watchKey(v, key, newest), watchPrefix(v, key, newest))
}

// watchAny watches some keys of the newest version.
func (ws *watchers) watchAny(t *rapid.T, h *history) {
	for _, key := range rapid.SliceOfN(keys(), 0, 8).Draw(t, "watched") {
		ws.watch(h.newest(), key, h.published)
	}
}

// commit commits the transaction of h, whose content is want, and checks that the
// watches close after publication, not before it, and all those that must.
func (ws *watchers) commit(h *history, want model) error {
	next := version{h.txn.Commit(), want}
	if err := ws.allOpen(); err != nil {
		return err
	}
	h.versions = append(h.versions, next)
	h.txn.Notify()
	return ws.settle(want)
}

func (ws *watchers) allOpen() error {
	for _, w := range ws.open {
		if w.closed() {
			return fmt.Errorf("%v closed before publication", w)
		}
	}
	return nil
}

// settle checks that every watch whose result is another one in m has closed,
// and forgets those that have.
func (ws *watchers) settle(m model) error {
	var open []*watcher
	for _, w := range ws.open {
		switch {
		case w.closed():
			ws.woken++
			if !w.changed(m) {
				ws.needless++
			}
		case w.changed(m):
			return fmt.Errorf("%v did not close", w)
		default:
			open = append(open, w)
		}
	}
	ws.open = open
	return nil
}

func (ws *watchers) report(t *testing.T) {
	t.Logf("%d wake-ups, %d of them needless (%.1f %%)", ws.woken, ws.needless, 100*float64(ws.needless)/float64(max(1, ws.woken)))
}

func TestWatchesNeverMiss(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		total := &watchers{}
		rapid.Check(t, func(t *rapid.T) {
			h, ws := newHistory(leaf), &watchers{}
			for range rapid.IntRange(1, 12).Draw(t, "transactions") {
				ws.watchAny(t, h)
				want := h.write(t, rapid.IntRange(0, 10).Draw(t, "writes"))
				if rapid.IntRange(0, 4).Draw(t, "discard if 0") == 0 {
					h.txn.Discard()
					must(t, "discard", ws.allOpen())
					continue
				}
				must(t, "commit", ws.commit(h, want))
			}
			total.woken += ws.woken
			total.needless += ws.needless
		})
		total.report(t)
	})
}

// Watches of versions that have successors already are closed, or never miss.
func TestLateWatchesOfOldVersionsAreClosed(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h, ws := newHistory(leaf), &watchers{}
			for range rapid.IntRange(2, 8).Draw(t, "transactions") {
				must(t, "commit", ws.commit(h, h.write(t, rapid.IntRange(0, 8).Draw(t, "writes"))))
				old := rapid.IntRange(0, len(h.versions)-1).Draw(t, "old version")
				late := &watchers{}
				for _, key := range rapid.SliceOfN(keys(), 1, 8).Draw(t, "watched late") {
					late.watch(h.versions[old], key, h.published)
				}
				for _, v := range h.versions[old+1:] {
					must(t, fmt.Sprintf("version %d of %d", old, len(h.versions)), late.settle(v.want))
				}
				if old == len(h.versions)-1 {
					must(t, "newest version", late.allOpen())
				}
				ws.open = append(ws.open, late.open...)
			}
		})
	})
}

// Watches are taken while a transaction is open, when it is committed but not
// published, published but not announced, and after that; of its own views, too.
func TestWatchesOfEveryMomentOfATransactionClose(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(leaf)
			ws, early := &watchers{}, &watchers{}
			watch := func(ws *watchers, v version, moment string) {
				for _, key := range rapid.SliceOfN(keys(), 0, 4).Draw(t, moment) {
					ws.watch(v, key, h.published)
				}
			}
			for range rapid.IntRange(1, 6).Draw(t, "transactions") {
				base := h.newest()
				watch(ws, base, "before")
				want := h.write(t, rapid.IntRange(0, 5).Draw(t, "first writes"))
				watch(ws, base, "inside")
				watch(early, version{h.txn.View(), maps.Clone(want)}, "of a view")
				h.continues(t, &h.txn, want, rapid.IntRange(0, 5).Draw(t, "more writes"))
				watch(ws, base, "before the commit")
				next := version{h.txn.Commit(), want}
				watch(ws, base, "before publication")
				watch(early, next, "of the new version before its publication")
				must(t, "committed", ws.allOpen())

				h.versions = append(h.versions, next)
				watch(ws, next, "of the new version")
				must(t, "published", ws.allOpen())
				watch(ws, base, "before the notification")
				h.txn.Notify()
				must(t, "notified", ws.settle(want))
				must(t, "notified, early", early.settle(want))
				watch(ws, base, "late")
				must(t, "late", ws.settle(want))
			}
		})
	})
}

// Whoever watches asks for the newest version: a commit can come between any two
// of the steps of both.
func TestWatchesTakenBetweenTheStepsOfACommitClose(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(leaf)
			h.commit(h.write(t, 10))
			for range rapid.IntRange(1, 6).Draw(t, "transactions") {
				base := h.newest()
				want := h.write(t, rapid.IntRange(1, 5).Draw(t, "writes"))
				next := version{h.txn.Commit(), want}
				publish := func() { h.versions = append(h.versions, next) }
				steps := rapid.Permutation([]string{"publish", "notify", "read"}).Filter(func(steps []string) bool {
					return slices.Index(steps, "publish") < slices.Index(steps, "notify")
				}).Draw(t, "steps")
				early := rapid.IntRange(0, slices.Index(steps, "read")).Draw(t, "steps before the watch")
				var read Tree
				do := func(steps []string) {
					for _, step := range steps {
						switch step {
						case "publish":
							publish()
						case "notify":
							h.txn.Notify()
						case "read":
							read = h.published()
						}
					}
				}
				do(steps[:early])
				key, once := keys().Draw(t, "watched"), false
				w := &watcher{key: key, prefix: rapid.Bool().Draw(t, "prefix")}
				w.was = fingerprint(base.want, key, w.prefix)
				watch := base.tree.Watch
				if w.prefix {
					watch = base.tree.WatchPrefix
				}
				w.woken = watch([]byte(key), func() Tree {
					if !once {
						once = true
						do(steps[early:])
					}
					return read
				})
				if w.changed(want) && !w.closed() {
					t.Fatalf("%v did not close; steps before it: %d of %v", w, early, steps)
				}
			}
		})
	})
}

// A transaction that was discarded is used again, for a version that another one
// has made meanwhile.
func TestTransactionsAreUsedAgainInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, ws := newHistory(embeddedLeaf), &watchers{}
		others := make([]Txn, 3)
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			ws.watchAny(t, h)
			for i := range others {
				v := h.newest()
				others[i].Begin(&v.tree, &h.ids)
				h.continues(t, &others[i], maps.Clone(v.want), rapid.IntRange(0, 3).Draw(t, "writes to be discarded"))
				others[i].Discard()
			}
			want := h.write(t, rapid.IntRange(0, 5).Draw(t, "writes"))
			must(t, "commit", ws.commit(h, want))
			must(t, "newest version", want.check(h.published()))
			i := rapid.IntRange(0, len(others)-1).Draw(t, "next")
			h.txn, others[i] = others[i], h.txn
		}
	})
}

// Keys, present or not, are watched that differ only far from their beginning.
func TestWatchesOfLongKeysClose(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	watched := []string{"", "x", long, long + "\x00", long + "y", long[:65_535], long[:65_536], long[:65_537], long[:300] + "y", long + "yz"}
	eachKind(t, func(t *testing.T, leaf maker) {
		for i, key := range watched {
			h := load(leaf, model{long: 1, long + "y": 2, long[:65_536]: 3, "z": 4})
			ws := &watchers{}
			for _, key := range watched {
				ws.watch(h.newest(), key, h.published)
			}
			want := h.begin()
			h.txn.Insert([]byte(key), leaf([]byte(key), 100+i))
			want[key] = 100 + i
			must(t, "insert "+brief(key), ws.commit(h, want))
			want = h.begin()
			h.txn.Remove([]byte(key))
			delete(want, key)
			must(t, "remove "+brief(key), ws.commit(h, want))
			must(t, "remove "+brief(key), want.check(h.newest().tree, watched...))
		}
	})
}

// hugeChanges are ways to change more nodes in one transaction than it keeps
// memory for.
var hugeChanges = map[string]func(i int, key string, h *history, m model){
	"overwrite": func(i int, key string, h *history, m model) { h.set(m, key, 1_000_000+i) },
	"remove": func(_ int, key string, h *history, m model) {
		h.txn.Remove([]byte(key))
		delete(m, key)
	},
	"insert beside": func(i int, key string, h *history, m model) {
		h.set(m, key+"/x", 1_000_000+i)
		h.set(m, "key", -1) // above them all
		h.set(m, "", -2)
	},
	"remove and insert again": func(i int, key string, h *history, m model) {
		h.txn.Remove([]byte(key))
		delete(m, key)
		if i%2 == 1 {
			h.set(m, key, 1_000_000+i)
		}
	},
}

func (h *history) set(m model, key string, value int) {
	h.txn.Insert([]byte(key), h.leaf([]byte(key), value))
	m[key] = value
}

const hugeSize = 20_000

func hugeHistory(leaf maker) *history {
	m := model{}
	for i := range hugeSize {
		m[fmt.Sprintf("key-%d", i)] = i + 1
	}
	return load(leaf, m)
}

func TestWatchesNeverMissInHugeTransactions(t *testing.T) {
	for name, change := range hugeChanges {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			eachKind(t, func(t *testing.T, leaf maker) {
				random := rand.New(rand.NewPCG(1, 2))
				h, ws := hugeHistory(leaf), &watchers{}
				v := h.newest()
				ws.open = []*watcher{watchPrefix(v, "", h.published)}
				for _, key := range []string{"", "key", "nothing"} {
					ws.open = append(ws.open, watchKey(v, key, h.published))
				}
				for range 300 {
					key := fmt.Sprintf("key-%d", random.IntN(hugeSize))
					ws.open = append(ws.open, watchKey(v, key, h.published), watchKey(v, key+"/x", h.published))
				}
				for i := range 40 {
					ws.open = append(ws.open, watchPrefix(v, fmt.Sprintf("key-%d", i), h.published))
				}
				want := h.begin()
				for i := range 12_000 {
					change(i, fmt.Sprintf("key-%d", random.IntN(hugeSize)), h, want)
				}
				must(t, "huge commit", ws.commit(h, want))
				ws.report(t)

				want = h.begin()
				change(1, "key-17", h, want)
				must(t, "small commit after it", ws.commit(h, want))
			})
		})
	}
}

func TestDiscardedTransactionsWakeNobody(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		h, ws := hugeHistory(leaf), &watchers{}
		v := h.newest()
		for _, key := range []string{"", "key-1", "absent"} {
			ws.watch(v, key, h.published)
		}
		others := &watchers{}
		others.watch(v, "key-2", h.published)
		for _, size := range []int{1, hugeSize} {
			m := h.begin()
			for i := range size {
				h.txn.Remove(fmt.Appendf(nil, "key-%d", i))
				h.set(m, fmt.Sprintf("absent%d", i), 1)
			}
			h.txn.Discard()
			must(t, "discarded", errors.Join(ws.allOpen(), others.allOpen()))
			if v.tree.Len() != hugeSize {
				t.Errorf("%d keys after discarded transactions, expected %d", v.tree.Len(), hugeSize)
			}
		}
		want := h.begin() // a later one goes its way, and wakes nobody for those before it
		h.txn.Remove([]byte("key-1"))
		delete(want, "key-1")
		must(t, "commit", ws.commit(h, want))
		for _, w := range others.open {
			if w.closed() {
				t.Errorf("%v closed", w)
			}
		}
	})
}

func TestCloseAllClosesEachWatchThatIsOpen(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		rapid.Check(t, func(t *rapid.T) {
			h, ws := newHistory(leaf), &watchers{}
			for range rapid.IntRange(0, 6).Draw(t, "transactions") {
				ws.watchAny(t, h)
				must(t, "commit", ws.commit(h, h.write(t, rapid.IntRange(0, 10).Draw(t, "writes"))))
				old := h.versions[rapid.IntRange(0, len(h.versions)-1).Draw(t, "old version")]
				for _, key := range rapid.SliceOfN(keys(), 0, 4).Draw(t, "watched late") {
					ws.watch(old, key, h.published)
				}
				must(t, "late", ws.settle(h.newest().want))
			}
			ws.watchAny(t, h)
			must(t, "before the end", ws.allOpen())
			last := h.newest()
			gone := func() Tree { return Tree{} }
			ws.watch(last, keys().Draw(t, "watched at the end"), gone)
			last.tree.CloseAll()
			ws.watch(last, keys().Draw(t, "watched after the end"), gone)
			for _, w := range ws.open {
				if !w.closed() {
					t.Fatalf("%v is open", w)
				}
			}
		})
	})
}

// The watch of a row must not wake up when a key beside it comes: only who waits
// for such keys does.
func TestKeyBesideALeafWakesOnlyWhoWaitsForIt(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		h := load(leaf, model{"ab": 1, "x": 2})
		before := h.newest().tree
		row, rows, absent := before.Watch([]byte("ab"), h.published), before.WatchPrefix([]byte("ab"), h.published), before.Watch([]byte("abc"), h.published)
		other := before.Watch([]byte("xy"), h.published)

		want := h.begin()
		h.set(want, "abc", 3)
		after := h.commit(want).tree
		if isClosed(row) || isClosed(other) || !isClosed(rows) || !isClosed(absent) {
			t.Errorf("woken: the row %t, another's neighbor %t, the prefix %t, the absent key %t", isClosed(row), isClosed(other), isClosed(rows), isClosed(absent))
		}
		if !isClosed(before.WatchPrefix([]byte("ab"), h.published)) || isClosed(after.Watch([]byte("abcd"), h.published)) || isClosed(after.Watch([]byte("ab"), h.published)) {
			t.Error("a watch of the old version is open, or one of the new version closed")
		}
		if isClosed(before.Watch([]byte("ab"), h.published)) {
			t.Error("the row is the same in both versions, and its watch in the old one is closed")
		}
		want = h.begin()
		h.txn.Remove([]byte("abc"))
		delete(want, "abc")
		h.commit(want)
		if !isClosed(before.Watch([]byte("abc"), h.published)) {
			t.Error("a key came and went since the old version, and its watch there is open")
		}
	})
}

// A leaf stands alone below its edge. Keys that part from it at each chunk wake
// whoever waits for a key that parts there or before, and nobody behind it.
func TestEdgeOfALeafWakesWhoWaitsAboveWhereItIsDivided(t *testing.T) {
	const alone = "abcdef"
	partingAt := func(d int) string {
		if d == 2*len(alone) {
			return alone + "\x00"
		}
		return alone[:d/2] + string([]byte{alone[d/2] ^ byte(0x40>>(d%2*4))})
	}
	eachKind(t, func(t *testing.T, leaf maker) {
		for divided := 1; divided <= 2*len(alone); divided++ {
			h := load(leaf, model{alone: 1, "\xff": 2})
			v := h.newest()
			row := watchKey(v, alone, h.published)
			var beside []*watcher
			for d := 1; d <= 2*len(alone); d++ {
				beside = append(beside, watchKey(v, partingAt(d), h.published))
			}
			want := h.begin()
			h.set(want, partingAt(divided), 3)
			h.commit(want)
			if row.closed() {
				t.Errorf("divided at chunk %d: the row's own watch closed", divided)
			}
			for i, w := range beside {
				if w.closed() != (i+1 <= divided) {
					t.Errorf("divided at chunk %d: the watch of a key that parts at %d is closed: %t", divided, i+1, w.closed())
				}
			}
		}
	})
}

func TestWritesWakeNobodyInOtherParts(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		for name, write := range map[string]func(h *history, m model){
			"insert":  func(h *history, m model) { h.set(m, "a3", 9) },
			"replace": func(h *history, m model) { h.set(m, "a1", 9) },
			"remove":  func(h *history, m model) { h.txn.Remove([]byte("a1")); delete(m, "a1") },
		} {
			h, ws := load(leaf, model{"a1": 1, "a2": 2, "b1": 3, "b2": 4}), &watchers{}
			v := h.newest()
			others := []*watcher{
				watchKey(v, "a2", h.published), watchKey(v, "b1", h.published), watchKey(v, "b2", h.published),
				watchKey(v, "b3", h.published), watchPrefix(v, "b", h.published), watchPrefix(v, "a2", h.published),
			}
			ws.open = []*watcher{watchPrefix(v, "a", h.published), watchPrefix(v, "", h.published), watchKey(v, "a1", h.published), watchKey(v, "a3", h.published)}
			want := h.begin()
			write(h, want)
			must(t, name, ws.commit(h, want))
			for _, w := range others {
				if w.closed() {
					t.Errorf("%s: %v closed", name, w)
				}
			}
		}
	})
}
