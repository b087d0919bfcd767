package enginetest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// watcher holds one watch and what the watched result was.
type watcher struct {
	key    string
	prefix bool // everything below key, not key alone
	was    uint64
	woken  <-chan struct{}
}

func watchKey(v version, key string) *watcher {
	return &watcher{key: key, was: fingerprint(v.want, key, false), woken: v.tree.Watch([]byte(key))}
}

func watchPrefix(v version, prefix string) *watcher {
	return &watcher{key: prefix, prefix: true, was: fingerprint(v.want, prefix, true), woken: v.tree.WatchPrefix([]byte(prefix))}
}

func (w *watcher) String() string {
	if w.prefix {
		return "the watch of prefix " + brief(w.key)
	}
	return "the watch of key " + brief(w.key)
}

func (w *watcher) closed() bool {
	select {
	case <-w.woken:
		return true
	default:
		return false
	}
}

// changed says whether m has another result than the one that was watched.
func (w *watcher) changed(m model) bool { return fingerprint(m, w.key, w.prefix) != w.was }

// fingerprint stands for what a query returns.
func fingerprint(m model, key string, prefix bool) uint64 {
	if !prefix {
		return uint64(m[key]) // values are never 0
	}
	var sum uint64
	for k, value := range m {
		if strings.HasPrefix(k, key) {
			h := fnv.New64a()
			fmt.Fprintf(h, "%d %s", value, k)
			sum += h.Sum64()
		}
	}
	return sum
}

// watchers are all watches that are still open, and how many woke up.
type watchers struct {
	open            []*watcher
	woken, needless int
}

// commit commits txn, whose content is want, and checks that the watches close
// with notify, not before it, and all those that must.
func (ws *watchers) commit(txn engine.Txn[int], want model) (version, error) {
	tree := txn.Commit()
	for _, w := range ws.open {
		if w.closed() {
			return version{}, fmt.Errorf("%v closed before notify", w)
		}
	}
	txn.Notify()
	var open []*watcher
	for _, w := range ws.open {
		switch {
		case w.closed():
			ws.woken++
			if !w.changed(want) {
				ws.needless++
			}
		case w.changed(want):
			return version{}, fmt.Errorf("%v did not close", w)
		default:
			open = append(open, w)
		}
	}
	ws.open = open
	return version{tree, want}, nil
}

func (ws *watchers) report(t *testing.T) {
	t.Logf("%d wake-ups, %d of them needless (%.1f %%)", ws.woken, ws.needless, 100*float64(ws.needless)/float64(max(1, ws.woken)))
}

func testWatches(t *testing.T, newTree func() engine.Tree[int]) {
	total := &watchers{}
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		ws := &watchers{}
		for range rapid.IntRange(1, 12).Draw(t, "transactions") {
			for _, key := range rapid.SliceOfN(keys(), 0, 8).Draw(t, "watched") {
				ws.open = append(ws.open, watchKey(h.newest(), key), watchPrefix(h.newest(), key))
			}
			txn, want := h.write(t, rapid.IntRange(0, 10).Draw(t, "writes"))
			if rapid.IntRange(0, 4).Draw(t, "drop if 0") == 0 {
				continue
			}
			v, err := ws.commit(txn, want)
			must(t, "commit", err)
			h.versions = append(h.versions, v)
		}
		total.woken += ws.woken
		total.needless += ws.needless
	})
	total.report(t)
}

// testLateWatches takes watches from versions that have successors already.
func testLateWatches(t *testing.T, newTree func() engine.Tree[int]) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{versions: []version{{newTree(), model{}}}}
		ws := &watchers{}
		for range rapid.IntRange(2, 8).Draw(t, "transactions") {
			txn, want := h.write(t, rapid.IntRange(0, 8).Draw(t, "writes"))
			v, err := ws.commit(txn, want)
			must(t, "commit", err)
			h.versions = append(h.versions, v)

			old := rapid.IntRange(0, len(h.versions)-1).Draw(t, "old version")
			for _, key := range rapid.SliceOfN(keys(), 1, 8).Draw(t, "watched late") {
				for _, w := range []*watcher{watchKey(h.versions[old], key), watchPrefix(h.versions[old], key)} {
					must(t, fmt.Sprintf("version %d of %d", old, len(h.versions)), lateWatch(w, h.versions[old+1:]))
					if !w.closed() {
						ws.open = append(ws.open, w)
					}
				}
			}
		}
	})
}

func lateWatch(w *watcher, later []version) error {
	for _, v := range later {
		if w.changed(v.want) && !w.closed() {
			return fmt.Errorf("%v is open although the result has changed", w)
		}
	}
	return nil
}

// hugeChanges are ways to change more nodes in one transaction than an engine
// may care to remember.
var hugeChanges = map[string]func(i int, key string, txn engine.Txn[int], m model){
	"overwrite": func(i int, key string, txn engine.Txn[int], m model) {
		txn.Insert([]byte(key), 1_000_000+i)
		m[key] = 1_000_000 + i
	},
	"delete": func(_ int, key string, txn engine.Txn[int], m model) {
		txn.Delete([]byte(key))
		delete(m, key)
	},
	"insert beside": func(i int, key string, txn engine.Txn[int], m model) {
		txn.Insert([]byte(key+"/x"), 1_000_000+i)
		m[key+"/x"] = 1_000_000 + i
		m["key"], m[""] = -1, -2 // above them all
		txn.Insert([]byte("key"), -1)
		txn.Insert(nil, -2)
	},
	"delete and insert again": func(i int, key string, txn engine.Txn[int], m model) {
		txn.Delete([]byte(key))
		if i%2 == 0 {
			delete(m, key)
			return
		}
		txn.Insert([]byte(key), 1_000_000+i)
		m[key] = 1_000_000 + i
	},
}

const hugeSize = 20_000

func hugeVersion(newTree func() engine.Tree[int]) version {
	m := model{}
	for i := range hugeSize {
		m[fmt.Sprintf("key-%d", i)] = i + 1
	}
	return version{load(newTree, m), m}
}

func testHugeTransactions(t *testing.T, newTree func() engine.Tree[int]) {
	for name, change := range hugeChanges {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			v := hugeVersion(newTree)
			ws := &watchers{open: []*watcher{watchPrefix(v, ""), watchKey(v, ""), watchKey(v, "key"), watchKey(v, "nothing")}}
			for range 300 {
				key := fmt.Sprintf("key-%d", random.IntN(hugeSize))
				ws.open = append(ws.open, watchKey(v, key), watchKey(v, key+"/x"))
			}
			for i := range 40 {
				ws.open = append(ws.open, watchPrefix(v, fmt.Sprintf("key-%d", i)))
			}
			txn, want := v.tree.Txn(), maps.Clone(v.want)
			for i := range 12_000 {
				change(i, fmt.Sprintf("key-%d", random.IntN(hugeSize)), txn, want)
			}
			next, err := ws.commit(txn, want)
			must(t, "huge commit", err)
			ws.report(t)

			txn, want = next.tree.Txn(), maps.Clone(next.want)
			change(1, "key-17", txn, want)
			_, err = ws.commit(txn, want)
			must(t, "small commit after it", err)
		})
	}
}

func testDropped(t *testing.T, newTree func() engine.Tree[int]) {
	v := hugeVersion(newTree)
	watched := []*watcher{watchPrefix(v, ""), watchKey(v, "key-1"), watchKey(v, "absent"), watchPrefix(v, "key-2")}
	for i, size := range []int{1, hugeSize} {
		txn := v.tree.Txn()
		for i := range size {
			txn.Delete(fmt.Appendf(nil, "key-%d", i))
			txn.Insert(fmt.Appendf(nil, "absent%d", i), 1)
		}
		for _, w := range watched {
			if w.closed() {
				t.Errorf("%v closed by dropped transaction %d", w, i+1)
			}
		}
	}
	if v.tree.Len() != hugeSize {
		t.Errorf("%d keys after dropped transactions, expected %d", v.tree.Len(), hugeSize)
	}
	txn := v.tree.Txn() // a later one goes its way
	txn.Delete([]byte("key-1"))
	txn.Commit()
	txn.Notify()
	if !watched[0].closed() || !watched[1].closed() {
		t.Error("watches did not close after the transactions were dropped")
	}
}
