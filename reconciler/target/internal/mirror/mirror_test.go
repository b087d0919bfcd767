package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type thing struct {
	Name string
	Size int
}

// kernel is one that tells of changes as the test wants.
type kernel struct {
	t      *testing.T
	db     *statedb.DB
	table  statedb.RWTable[thing]
	mirror *Mirror[thing]

	mu            sync.Mutex
	things        map[string]int
	listErr       error
	listings      int
	subscriptions int
	refused       error
	open          *heard
	told          []string // what health was told
}

// heard is a subscription of the test's.
type heard struct {
	received chan result
	closed   chan struct{}
}

type result struct {
	messages []syscall.NetlinkMessage
	err      error
}

func (h *heard) Receive() ([]syscall.NetlinkMessage, error) {
	select {
	case r := <-h.received:
		return r.messages, r.err
	case <-h.closed:
		return nil, errors.New("closed")
	}
}

func (h *heard) Close() { close(h.closed) }

func (k *kernel) OK(message string) { k.tell("ok: " + message) }

func (k *kernel) Degraded(message string, err error) {
	k.tell(fmt.Sprintf("degraded: %s: %v", message, err))
}

func (k *kernel) Stopped(message string) { k.tell("stopped: " + message) }

func (k *kernel) tell(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.told) == 0 || k.told[len(k.told)-1] != text {
		k.told = append(k.told, text)
	}
}

func (k *kernel) subscribe() (Subscription, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.subscriptions++
	if k.refused != nil {
		return nil, k.refused
	}
	k.open = &heard{make(chan result), make(chan struct{})}
	return k.open, nil
}

func (k *kernel) list(context.Context) (rows []thing, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listings++
	for name, size := range k.things {
		rows = append(rows, thing{name, size})
	}
	return rows, k.listErr
}

// change changes what there is; 0 removes.
func (k *kernel) change(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn()
}

func (k *kernel) set(name string, size int) {
	k.change(func() {
		if k.things[name] = size; size == 0 {
			delete(k.things, name)
		}
	})
}

// pass lets time go by, and a little more than others wait for.
func pass(d time.Duration) {
	time.Sleep(d + time.Microsecond)
	synctest.Wait()
}

// say has the mirror hear a message of a type.
func (k *kernel) say(kind uint16) {
	k.open.received <- result{messages: []syscall.NetlinkMessage{{Header: syscall.NlMsghdr{Type: kind}}}}
	synctest.Wait()
}

func (k *kernel) want(things map[string]int) {
	k.t.Helper()
	is := map[string]int{}
	for row := range k.table.All(k.db.ReadTxn()) {
		is[row.Name] = row.Size
	}
	if diff := cmp.Diff(things, is); diff != "" {
		k.t.Errorf("the table (-want +got):\n%s", diff)
	}
}

func (k *kernel) wantSource(initialized bool, incomplete string) {
	k.t.Helper()
	want := []statedb.SourceState{{Name: "kernel", Initialized: initialized, Incomplete: incomplete}}
	if diff := cmp.Diff(want, k.table.Sources(k.db.ReadTxn())); diff != "" {
		k.t.Errorf("sources (-want +got):\n%s", diff)
	}
}

const about = 7 // the type of messages that tell of things

func mirrored(t *testing.T, test func(t *testing.T, k *kernel, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{t: t, db: statedb.New(), things: map[string]int{"a": 1, "b": 1}}
		var err error
		k.table, err = statedb.NewTable(k.db, statedb.Schema[thing]{
			Name: "seen", Primary: statedb.NewIndex("name", func(o thing) string { return o.Name }),
		})
		if err != nil {
			t.Fatal(err)
		}
		k.mirror, err = New(Config[thing]{
			DB: k.db, Table: k.table, Subscribe: k.subscribe, List: k.list,
			Tells: func(m syscall.NetlinkMessage) bool { return m.Header.Type == about },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		started := false
		test(t, k, func() {
			started = true
			go func() { ended <- k.mirror.Run(ctx, k) }()
			synctest.Wait()
		})
		if cancel(); started {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTheTableIsWhatThereIs(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		k.wantSource(false, "")
		start()
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")

		k.set("a", 2)
		k.set("b", 0)
		k.set("c", 1)
		pass(time.Hour)
		k.want(map[string]int{"a": 1, "b": 1}) // nobody has told
		k.say(about)
		k.want(map[string]int{"a": 2, "c": 1})
	})
}

func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		revision := k.table.Revision(k.db.ReadTxn())
		pass(time.Second)
		k.say(about)
		k.set("a", 2)
		k.say(about + 1)
		if now := k.table.Revision(k.db.ReadTxn()); now != revision || k.listings != 2 {
			t.Errorf("revision %d after %d, %d listings, expected 2", now, revision, k.listings)
		}
	})
}

func TestManyMessagesMakeFewListings(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		for i := range 1000 {
			k.set("a", 2+i)
			k.say(about)
			pass(time.Millisecond)
		}
		pass(longest)
		k.want(map[string]int{"a": 1001, "b": 1})
		if k.listings > 52 {
			t.Errorf("%d listings within a second", k.listings)
		}
	})
}

func TestMessagesThatWereLostMakeAListing(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		pass(time.Second)
		k.set("a", 2)
		k.open.received <- result{err: syscall.ENOBUFS}
		synctest.Wait()
		k.want(map[string]int{"a": 2, "b": 1})
		k.wantSource(true, "")
		if k.subscriptions != 1 {
			t.Errorf("%d subscriptions, expected to go on with the first", k.subscriptions)
		}
	})
}

func TestAfterAFaultTheTableIsIncompleteUntilItIsListedAgain(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		cause  func(k *kernel)
		mend   func(k *kernel)
		reason string
	}{
		"of the subscription": {
			func(k *kernel) { k.open.received <- result{err: broken} }, func(*kernel) {}, "hear of changes: broken",
		},
		"of several": {
			func(k *kernel) {
				k.change(func() { k.refused = broken })
				k.open.received <- result{err: errors.New("first")}
				pass(10 * again)
			},
			func(k *kernel) { k.change(func() { k.refused = nil }) }, "subscribe to changes: broken",
		},
		"of a listing": {
			func(k *kernel) {
				k.change(func() { k.listErr = broken })
				k.say(about)
			},
			func(k *kernel) { k.change(func() { k.listErr = nil }) }, "broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mirrored(t, func(t *testing.T, k *kernel, start func()) {
				start()
				pass(time.Second)
				c.cause(k)
				synctest.Wait()
				k.wantSource(true, c.reason)
				k.want(map[string]int{"a": 1, "b": 1})
				c.mend(k)
				k.set("a", 2)
				pass(2 * again)
				k.want(map[string]int{"a": 2, "b": 1})
				k.wantSource(true, "")
				if last := k.told[len(k.told)-1]; last != "ok: up to date" || !slices.Contains(k.told, "degraded: not up to date: "+c.reason) {
					t.Errorf("health was told %q", k.told)
				}
				k.set("a", 3)
				k.say(about)
				k.want(map[string]int{"a": 3, "b": 1})
			})
		})
	}
}

func TestWhatChangesDuringAListingIsListedAgain(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		start()
		list := k.mirror.List
		k.mirror.List = func(ctx context.Context) ([]thing, error) {
			rows, err := list(ctx)
			if k.mirror.List = list; err == nil {
				k.set("a", 5)
				k.open.received <- result{messages: []syscall.NetlinkMessage{{Header: syscall.NlMsghdr{Type: about}}}}
			}
			return rows, err
		}
		pass(time.Second)
		k.say(about)
		pass(longest)
		k.want(map[string]int{"a": 5, "b": 1})
	})
}

func TestItEndsWhileItWaits(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		k.refused = errors.New("no more sockets")
		start()
		k.want(map[string]int{})
		k.wantSource(false, "subscribe to changes: no more sockets")
	})
}
