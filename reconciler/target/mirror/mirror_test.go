package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

func TestWhatIsNotAnnouncedIsListedNowAndThen(t *testing.T) {
	mirrored(t, func(t *testing.T, k *kernel, start func()) {
		var may atomic.Bool
		k.mirror.config.Unannounced = func(context.Context) bool { return may.Load() }
		start()
		k.set("a", 2)
		pass(time.Hour)
		k.want(map[string]int{"a": 1, "b": 1})
		may.Store(true)
		pass(unannouncedInterval)
		k.want(map[string]int{"a": 2, "b": 1})
		k.wantSource(true, "")
		if k.listings != 2 {
			t.Errorf("%d listings, expected 2", k.listings)
		}
	})
}
