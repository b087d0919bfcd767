package trie

import (
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// concurrentKeys are few, and some are prefixes of others, so that nodes are
// split and merged all the time.
var concurrentKeys = []string{"", "a", "ab", "abc", "abd", "abcdefgh", "b", "b\x00", "c\xff"}

// newestVersion is where commits publish, for the readers beside them. It is
// empty when the tree is gone.
type newestVersion struct {
	current atomic.Pointer[version]
	last    atomic.Bool // there will be no other
}

func (n *newestVersion) tree() Tree {
	if v := n.current.Load(); v != nil {
		return v.tree
	}
	return Tree{}
}

// Readers ask for watches of the version that is being replaced at that moment,
// or was long ago.
func TestWatchesTakenDuringCommitsClose(t *testing.T) {
	eachKind(t, func(t *testing.T, leaf maker) {
		const commits = 2_000
		var newest newestVersion
		newest.current.Store(&version{New(), model{}})
		var readers sync.WaitGroup
		for n := range 3 {
			readers.Go(func() {
				old := newest.current.Load()
				for i := n; !newest.last.Load(); i++ {
					v := newest.current.Load()
					if i%4 == 3 {
						v, old = old, v
					}
					key := concurrentKeys[i%len(concurrentKeys)]
					for _, w := range []*watcher{watchKey(*v, key, newest.tree), watchPrefix(*v, key, newest.tree)} {
						if err := w.awaits(v, &newest); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		commitMany(&newest, leaf, commits)
		newest.last.Store(true)
		readers.Wait()
	})
}

// commitMany makes so many transactions and publishes them.
func commitMany(newest *newestVersion, leaf maker, commits int) {
	var txn Txn
	var ids uint64
	for i := range commits {
		v := newest.current.Load()
		want := maps.Clone(v.want)
		txn.Begin(&v.tree, &ids)
		key := concurrentKeys[(i*i+i/7)%len(concurrentKeys)]
		if i%3 == 2 {
			txn.Remove([]byte(key))
			delete(want, key)
		} else {
			txn.Insert([]byte(key), leaf([]byte(key), i+1))
			want[key] = i + 1
		}
		tree := txn.Commit()
		runtime.Gosched() // whoever was woken too early looks now
		newest.current.Store(&version{tree, want})
		txn.Notify()
	}
}

// awaits waits for a watch of a version, or for the end of all commits, by when
// it has closed if it had to. Who wakes up can read a newer version.
func (w *watcher) awaits(v *version, newest *newestVersion) error {
	for !w.closed() {
		if newest.last.Load() {
			if w.changed(newest.current.Load().want) && !w.closed() {
				return fmt.Errorf("%v did not close", w)
			}
			return nil
		}
		runtime.Gosched()
	}
	if newest.current.Load() == v {
		return fmt.Errorf("%v closed while its version was the newest", w)
	}
	return nil
}

// Readers ask for watches while the tree ends.
func TestWatchesTakenDuringCloseAllClose(t *testing.T) {
	const ends = 100
	eachKind(t, func(t *testing.T, leaf maker) {
		for range ends {
			var newest newestVersion
			newest.current.Store(&version{New(), model{}})
			commitMany(&newest, leaf, 9)
			last := newest.current.Load()
			var readers sync.WaitGroup
			taken := make([][]*watcher, 3)
			for n := range taken {
				readers.Go(func() {
					for i := n; !newest.last.Load(); i++ {
						key := concurrentKeys[i%len(concurrentKeys)]
						taken[n] = append(taken[n], watchKey(*last, key, newest.tree), watchPrefix(*last, key, newest.tree))
						runtime.Gosched()
					}
				})
			}
			runtime.Gosched()
			newest.current.Store(nil)
			last.tree.CloseAll()
			newest.last.Store(true)
			readers.Wait()
			for _, ws := range taken {
				for _, w := range ws {
					if !w.closed() {
						t.Fatalf("%v is open after the end", w)
					}
				}
			}
		}
	})
}

// Channels of one watch are made and taken out at the same moment.
func TestChannelsMadeAtOnceAreAllClosed(t *testing.T) {
	const makers, rounds = 3, 5_000
	for range rounds {
		var w watch
		var made [makers][2]<-chan struct{}
		var ready atomic.Int32
		var done sync.WaitGroup
		for n := range made {
			done.Go(func() {
				for ready.Add(1); ready.Load() < makers; {
					runtime.Gosched()
				}
				made[n] = [...]<-chan struct{}{w.channel(), w.edge(0, uint64(n))}
				w.divide(0, uint64(n))
			})
		}
		done.Wait()
		w.close()
		for _, channels := range made {
			if !isClosed(channels[0]) || !isClosed(channels[1]) {
				t.Fatal("a channel is open")
			}
		}
	}
}
