package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// row is what the tests reconcile. Other and Third are the statuses of other
// reconcilers.
type row struct {
	ID                   string
	Want                 int
	Status, Other, Third reconciler.Status
}

func (r row) GetStatus() reconciler.Status       { return r.Status }
func (r row) WithStatus(s reconciler.Status) row { r.Status = s; return r }

// The fields of the other statuses.
var (
	otherField = reconciler.StatusField[row]{
		Get: func(r row) reconciler.Status { return r.Other },
		Set: func(r row, s reconciler.Status) row { r.Other = s; return r },
	}
	thirdField = reconciler.StatusField[row]{
		Get: func(r row) reconciler.Status { return r.Third },
		Set: func(r row, s reconciler.Status) row { r.Third = s; return r },
	}
)

var byID = statedb.NewIndex("id", func(r row) string { return r.ID })

func rowSchema() statedb.Schema[row] {
	schema := reconciler.Reconciled(statedb.Schema[row]{Name: "rows", Primary: byID})
	schema.Amend = statedb.Amend[row]{
		Carry: func(from, to row) row {
			to.Status, to.Other, to.Third = from.Status, from.Other, from.Third
			return to
		},
		Reset: func(r row) row {
			r.Status, r.Other, r.Third = reconciler.Status{}, reconciler.Status{}, reconciler.Status{}
			return r
		},
	}
	return schema
}

// call is an operation that a fake was asked for.
type call struct {
	op   string // init, update, delete, observe, prune
	id   string
	want int
	at   time.Time
}

func (c call) String() string {
	switch c.op {
	case "update":
		return fmt.Sprintf("update %s=%d", c.id, c.want)
	case "delete":
		return "delete " + c.id
	}
	return c.op
}

// behavior is what happens in an operation before it has its effect, which it
// has only without an error.
type behavior func(ctx context.Context, c call) (reconciler.Result, error)

// fake is a target that keeps rows in a map. It cannot observe: see observing.
type fake struct {
	mu    sync.Mutex
	is    map[string]int
	calls []call
	act   behavior

	answer time.Duration // between looking and answering, of Observe

	// promise returns what is wrong with an operation on a row of a
	// snapshot, or nothing.
	promise func(c call, txn statedb.ReadTxn, r row) string

	inHand map[string]int // operations by key, "" for prune
	most   int            // operations at one time
	faults []string       // promises that were broken
}

func newFake() *fake { return &fake{is: map[string]int{}, inHand: map[string]int{}} }

func (f *fake) Init(ctx context.Context) error {
	_, err := f.do(ctx, call{op: "init", id: "\x00init"}, func() error { return nil })
	return err
}

func (f *fake) Update(ctx context.Context, txn statedb.ReadTxn, r row) (reconciler.Result, error) {
	changed := false
	c := call{op: "update", id: r.ID, want: r.Want}
	f.check(c, txn, r)
	result, err := f.do(ctx, c, func() error {
		is, there := f.is[r.ID]
		changed = !there || is != r.Want
		f.is[r.ID] = r.Want
		return nil
	})
	result.Changed = result.Changed || changed
	return result, err
}

func (f *fake) Delete(ctx context.Context, txn statedb.ReadTxn, r row) error {
	c := call{op: "delete", id: r.ID, want: r.Want}
	f.check(c, txn, r)
	_, err := f.do(ctx, c, func() error {
		delete(f.is, r.ID)
		return nil
	})
	return err
}

func (f *fake) Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[row, statedb.Revision]) (pruned int, err error) {
	f.check(call{op: "prune"}, txn, row{})
	_, err = f.do(ctx, call{op: "prune"}, func() error {
		wanted := map[string]bool{}
		for r := range desired {
			wanted[r.ID] = true
		}
		for id := range f.is {
			if !wanted[id] {
				delete(f.is, id)
				pruned++
			}
		}
		return nil
	})
	return pruned, err
}

func (f *fake) check(c call, txn statedb.ReadTxn, r row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.promise(c, txn, r); fault != "" {
		f.faults = append(f.faults, c.String()+" "+fault)
	}
}

// take lets virtual time go by in an operation.
func take(d time.Duration) { <-time.After(d) }

// do logs an operation, checks that it may run, and lets it have its effect
// unless act fails.
func (f *fake) do(ctx context.Context, c call, effect func() error) (result reconciler.Result, err error) {
	f.enter(&c)
	defer f.leave(c)
	if act := f.behavior(); act != nil {
		if result, err = act(ctx, c); err != nil {
			return result, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return result, effect()
}

// will sets how operations behave from now on; nil: they succeed.
func (f *fake) will(act behavior) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.act = act
}

func (f *fake) behavior() behavior {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.act
}

func (f *fake) enter(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.at = time.Now()
	f.calls = append(f.calls, *c)
	if f.inHand[c.id]++; f.inHand[c.id] > 1 {
		f.faults = append(f.faults, c.String()+" while its key is in another hand")
	}
	all := 0
	for _, n := range f.inHand {
		all += n
	}
	f.most = max(f.most, all)
	if f.inHand[""] > 0 && all > 1 && slices.ContainsFunc(f.calls, func(c call) bool { return c.op == "prune" }) {
		f.faults = append(f.faults, c.String()+" together with prune")
	}
}

func (f *fake) leave(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inHand[c.id]--; f.inHand[c.id] == 0 {
		delete(f.inHand, c.id)
	}
}

// log returns the operations so far as texts, and forgets them.
func (f *fake) log() []string {
	texts := []string{}
	for _, c := range f.took() {
		texts = append(texts, c.String())
	}
	return texts
}

func (f *fake) took() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) state() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.is)
}

// corrupt changes what is there behind the reconciler's back.
func (f *fake) corrupt(id string, is int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is[id] = is
}

// vanish removes what is there behind the reconciler's back.
func (f *fake) vanish(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.is, id)
}

// half has the effect of an operation that goes on.
func (f *fake) half(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.op == "delete" {
		delete(f.is, c.id)
	} else {
		f.is[c.id] = c.want
	}
}

// busy returns how many operations run.
func (f *fake) busy() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.inHand {
		n += of
	}
	return n
}

func (f *fake) inFlight(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inHand[id] > 0
}

// observing is a fake that can list what is there, and must not be pruned.
type observing struct{ *fake }

func (o observing) Prune(context.Context, statedb.ReadTxn, iter.Seq2[row, statedb.Revision]) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, "prune of a target that can observe")
	return 0, nil
}

func (o observing) Observe(ctx context.Context) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		var found []row
		// Another key than prune's: it may run together with others.
		_, err := o.do(ctx, call{op: "observe", id: "\x00observe"}, func() error {
			for _, id := range slices.Sorted(maps.Keys(o.is)) {
				found = append(found, row{ID: id, Want: o.is[id]})
			}
			return nil
		})
		take(o.answer)
		for _, r := range found {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(row{}, err)
		}
	}
}
