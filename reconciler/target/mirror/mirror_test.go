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
	table  *statedb.RWTable[thing]
	mirror *Mirror[thing, event]

	mu            sync.Mutex
	things        map[string]int
	listErr       error
	listings      int
	subscriptions int
	refused       error
	open          *heard
	told          []string // what health was told
}

// event is what a message of the test's says: a size of 0 is the end of a thing.
type event struct {
	thing
	doubt string
}

// heard is a subscription of the test's.
type heard struct {
	ready  chan struct{} // a token: there is a result
	closed chan struct{}

	mu      sync.Mutex
	results []result
}

type result struct {
	messages []syscall.NetlinkMessage
	err      error
}

func (h *heard) Wait() error {
	select {
	case <-h.ready:
		return nil
	case <-h.closed:
		return errors.New("closed")
	}
}

func (h *heard) Drain(each func(syscall.NetlinkMessage)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.results) > 0 {
		r := h.results[0]
		h.results = h.results[1:]
		for _, m := range r.messages {
			each(m)
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

func (h *heard) Close() { close(h.closed) }

// put has the mirror receive something.
func (h *heard) put(r result) {
	h.mu.Lock()
	h.results = append(h.results, r)
	h.mu.Unlock()
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

func (k *kernel) OK(message string) { k.note("ok: " + message) }

func (k *kernel) Degraded(message string, err error) {
	k.note(fmt.Sprintf("degraded: %s: %v", message, err))
}

func (k *kernel) Stopped(message string) { k.note("stopped: " + message) }

func (k *kernel) note(text string) {
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
	k.open = &heard{ready: make(chan struct{}, 1), closed: make(chan struct{})}
	return k.open, nil
}

func (k *kernel) list(_ context.Context, _ func() error) (rows []thing, err error) {
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

// tell has the mirror receive an event.
func (k *kernel) tell(name string, size int) {
	k.send(fmt.Sprintf("%s %d", name, size))
	synctest.Wait()
}

// doubt has the mirror receive an event that says too little.
func (k *kernel) doubt() {
	k.send("doubt 0")
	synctest.Wait()
}

func (k *kernel) send(texts ...string) {
	var r result
	for _, text := range texts {
		r.messages = append(r.messages, syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: about}, Data: []byte(text)})
	}
	k.open.put(r)
}

func decode(m syscall.NetlinkMessage) (e event, ok bool) {
	if m.Header.Type != about {
		return event{}, false
	}
	if _, err := fmt.Sscan(string(m.Data), &e.Name, &e.Size); err != nil {
		panic(err)
	}
	if e.Name == "doubt" {
		e.doubt = "something has happened"
	}
	return e, true
}

func (k *kernel) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	switch {
	case e.doubt != "":
		return e.doubt, nil
	case e.Size == 0:
		_, _, err = k.table.Delete(txn, e.thing)
	default:
		_, _, err = k.table.Insert(txn, e.thing)
	}
	return "", err
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
		k.mirror, err = New(Config[thing, event]{
			DB: k.db, Table: k.table, Subscribe: k.subscribe, List: k.list, Decode: decode, Apply: k.apply,
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
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		k.wantSource(false, "")
		start()
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")

		k.tell("a", 2)
		k.tell("b", 0)
		k.tell("c", 1)
		k.want(map[string]int{"a": 2, "c": 1})
		if k.listings != 1 {
			t.Errorf("%d listings, expected only the first", k.listings)
		}
	})
}

func TestWhatIsInDoubtIsListedAgain(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 2)
		k.set("b", 0)
		k.set("c", 1)
		k.doubt()
		k.wantSource(true, "it is about to be listed again: something has happened")
		k.want(map[string]int{"a": 1, "b": 1})
		pass(longest)
		k.want(map[string]int{"a": 2, "c": 1})
		k.wantSource(true, "")
	})
}

func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		revision := k.table.Revision(k.db.ReadTxn())
		pass(time.Second)
		k.set("a", 2)
		k.open.put(result{messages: []syscall.NetlinkMessage{{Header: syscall.NlMsghdr{Type: about + 1}}}})
		pass(time.Hour)
		if now := k.table.Revision(k.db.ReadTxn()); now != revision || k.listings != 1 {
			t.Errorf("revision %d after %d, %d listings, expected 1", now, revision, k.listings)
		}
		k.tell("b", 1) // as it is
		if now := k.table.Revision(k.db.ReadTxn()); now != revision {
			t.Errorf("revision %d after %d", now, revision)
		}
	})
}

func TestManyDoubtsMakeFewListings(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		for i := range 1000 {
			k.set("a", 2+i)
			k.doubt()
			pass(time.Millisecond)
		}
		pass(longest)
		k.want(map[string]int{"a": 1001, "b": 1})
		if k.listings > 52 {
			t.Errorf("%d listings within a second", k.listings)
		}
	})
}

func TestNotificationsThatWereLostMakeAListing(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 2)
		k.open.put(result{err: syscall.ENOBUFS})
		synctest.Wait()
		k.wantSource(true, "it is about to be listed again: notifications of the kernel were lost")
		k.want(map[string]int{"a": 1, "b": 1})
		pass(longest)
		k.want(map[string]int{"a": 2, "b": 1})
		k.wantSource(true, "")
		if k.subscriptions != 1 {
			t.Errorf("%d subscriptions, expected to go on with the first", k.subscriptions)
		}
	})
}

func TestMoreNotificationsThanFitAreLost(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		texts := make([]string, maxPending+1)
		for i := range texts {
			texts[i] = "a 3"
		}
		k.send(texts...)
		synctest.Wait()
		k.wantSource(true, "it is about to be listed again: notifications of the kernel were lost")
		pass(longest)
		k.want(map[string]int{"a": 1, "b": 1})
		k.wantSource(true, "")
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
			func(k *kernel) { k.open.put(result{err: broken}) }, func(*kernel) {}, "receive notifications: broken",
		},
		"of several": {
			func(k *kernel) {
				k.change(func() { k.refused = broken })
				k.open.put(result{err: errors.New("first")})
				pass(10 * retryDelay)
			},
			func(k *kernel) { k.change(func() { k.refused = nil }) }, "subscribe to changes: broken",
		},
		"of a listing": {
			func(k *kernel) {
				k.change(func() { k.listErr = broken })
				k.doubt()
				pass(longest)
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
				if k.mirror.View(t.Context()).Reliable() {
					t.Error("View relies on the table")
				}
				c.mend(k)
				k.set("a", 2)
				pass(2 * retryDelay)
				k.want(map[string]int{"a": 2, "b": 1})
				k.wantSource(true, "")
				if last := k.told[len(k.told)-1]; last != "ok: up to date" || !slices.Contains(k.told, "degraded: not up to date: "+c.reason) {
					t.Errorf("health was told %q", k.told)
				}
				k.tell("a", 3)
				k.want(map[string]int{"a": 3, "b": 1})
			})
		})
	}
}

func TestWhatIsReceivedDuringAListingIsApplied(t *testing.T) {
	mirrored(t, func(_ *testing.T, k *kernel, start func()) {
		start()
		list := k.mirror.config.List
		k.mirror.config.List = func(ctx context.Context, drain func() error) ([]thing, error) {
			rows, err := list(ctx, drain)
			if k.mirror.config.List = list; err == nil {
				k.send("a 5")
			}
			return rows, err
		}
		k.doubt()
		pass(longest)
		k.want(map[string]int{"a": 5, "b": 1})
	})
}

// What Apply knows comes from List, so it must not be called before a listing of the
// same subscription, nor after one that failed.
func TestNothingIsAppliedBeforeAListing(t *testing.T) {
	for range 30 { // what is ready first differs
		mirrored(t, func(t *testing.T, k *kernel, start func()) {
			listed := false
			subscribe, list, apply := k.mirror.config.Subscribe, k.mirror.config.List, k.mirror.config.Apply
			k.mirror.config.Subscribe = func() (Subscription, error) {
				s, err := subscribe()
				listed = false
				k.send("a 7")
				return s, err
			}
			k.mirror.config.List = func(ctx context.Context, drain func() error) ([]thing, error) {
				time.Sleep(time.Millisecond)
				rows, err := list(ctx, drain)
				listed = err == nil
				return rows, err
			}
			k.mirror.config.Apply = func(txn *statedb.WriteTxn, e event) (string, error) {
				if !listed {
					t.Error("applied before a listing")
				}
				return apply(txn, e)
			}
			k.listErr = errors.New("interrupted")
			start()
			pass(time.Millisecond)
			k.change(func() { k.listErr = nil })
			pass(2 * retryDelay)
			k.wantSource(true, "")
			k.want(map[string]int{"a": 1, "b": 1})
			k.tell("a", 3)
			k.want(map[string]int{"a": 3, "b": 1})
		})
	}
}

func TestItEndsWhileItWaits(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		k.refused = errors.New("no more sockets")
		start()
		k.want(map[string]int{})
		k.wantSource(false, "subscribe to changes: no more sockets")
		if k.mirror.View(t.Context()).Reliable() {
			t.Error("View relies on the table")
		}
	})
}

func TestAViewSeesAllThatHasHappened(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		synced := make(chan bool, 1)
		go func() {
			synced <- k.mirror.View(t.Context()).Reliable()
		}()
		synctest.Wait()
		if len(synced) > 0 {
			t.Fatal("View does not wait for the first listing")
		}
		start()
		if !<-synced {
			t.Error("View does not rely on the table after the first listing")
		}
		for i := range 100 {
			k.send(fmt.Sprintf("a %d", i+2)) // and at once
			if row, _ := k.mirror.View(t.Context()).Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != i+2 {
				t.Fatalf("%+v, expected the size %d", row, i+2)
			}
		}
		k.send("doubt 0")
		if k.mirror.View(t.Context()).Reliable() {
			t.Error("View relies on a table that is in doubt")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		k.send("a 1")
		if k.mirror.View(ended).Reliable() {
			t.Error("View relies on the table after the end of its context")
		}
	})
}

func TestListedHasAListingOfItsOwn(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		pass(time.Hour)
		for i := range 3 {
			k.set("a", 10+i)
			view, err := k.mirror.Listed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 10 + i
			if i == 0 { // the first listing serves the first call
				want = 1
			}
			if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != want || k.listings != i+1 {
				t.Errorf("call %d: %+v after %d listings", i+1, row, k.listings)
			}
		}
		k.change(func() { k.listErr = errors.New("broken") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := k.mirror.Listed(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Listed without a listing: %v", err)
		}
	})
}

func TestListedWaitsWhileTheTableIsInDoubt(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 7)
		k.doubt()
		view, err := k.mirror.Listed(t.Context())
		if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); err != nil || row.Size != 7 || k.listings != 2 {
			t.Errorf("%+v, %v after %d listings", row, err, k.listings)
		}
	})
}

func TestSettledWaitsForTheEndOfADoubt(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		k.set("a", 7)
		k.send("doubt 0")
		view := k.mirror.Settled(t.Context())
		if row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"})); row.Size != 7 {
			t.Errorf("%+v", row)
		}
		k.change(func() { k.listErr = errors.New("broken") })
		k.send("doubt 0")
		began := time.Now()
		if k.mirror.Settled(t.Context()).Reliable() || time.Since(began) != doubtPatience {
			t.Errorf("Settled relies on the table, or waits for %v", time.Since(began))
		}
	})
}

func TestWhatCannotBeAppliedIsNotReliedUpon(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		start()
		apply := k.mirror.config.Apply
		k.mirror.config.Apply = func(txn *statedb.WriteTxn, e event) (string, error) {
			k.mirror.config.Apply = apply
			return "", errors.New("refused")
		}
		k.set("a", 9)
		k.send("a 9")
		if view := k.mirror.View(t.Context()); view.Reliable() {
			row, _ := view.Get(k.table.KeyQuery(thing{Name: "a"}))
			t.Errorf("View relies on %+v", row)
		}
		pass(2 * retryDelay)
		k.want(map[string]int{"a": 9, "b": 1})
	})
}
