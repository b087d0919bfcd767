package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/statehive/statehive/statedb"
)

// Related makes rows run when something else changes than themselves. [Watches]
// and [Events] make it. Only rows that are in the table are run, whatever their
// status, and deletes that have not succeeded yet. A row that is named again and
// again before it runs is run once.
//
// The functions that name rows are called from one goroutine each while the
// reconciler runs. They read from the snapshot that they are given, and return
// soon. One that panics, or asks for an index that the table has not, is reported
// to log and health, and what it had not named is left to the next full pass.
type Related[Obj any] struct{ source relatedSource[Obj] }

// relatedSource is where changes come from that make rows run.
type relatedSource[Obj any] interface {
	check() error
	// table is nil when there is none.
	table() statedb.TableMeta
	// begin looks at what is there and returns the function that follows it.
	begin(y *relay[Obj]) (follow func(context.Context))
}

// Watches runs the rows that depend on a row of another table when that one
// changes in any way, is deleted, or its status changes: owners names them,
// often by listing an index of the reconciled table. When others are named than
// the last time, both run, for which the last answer is kept for each row of the
// other table.
//
// Rows that are done when the reconciler starts run once more if a row of the
// other table names them: it may have changed meanwhile.
func Watches[Obj, Child any](
	table statedb.Table[Child], owners func(txn statedb.ReadTxn, child Child) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	return Related[Obj]{&watched[Obj, Child]{of: table, owners: owners}}
}

// Events runs the rows that are named for each thing that comes from a channel.
// It is received from while the reconciler runs, and until it is closed.
func Events[Obj, Event any](
	events <-chan Event, rows func(txn statedb.ReadTxn, event Event) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	return Related[Obj]{&eventSource[Obj, Event]{events, rows}}
}

// checkRelated says what is wrong with the params' relations.
func (p Params[Obj]) checkRelated() error {
	for i, related := range p.Related {
		if related.source == nil {
			return fmt.Errorf("Params.Related[%d] is empty: make it with Watches or Events", i)
		}
		if err := related.source.check(); err != nil {
			return fmt.Errorf("Params.Related[%d]: %w", i, err)
		}
	}
	return nil
}

// relatedTables are the other tables that the reconciler reads.
func (p Params[Obj]) relatedTables() (tables []statedb.TableMeta) {
	for _, related := range p.Related {
		if t := related.source.table(); t != nil {
			tables = append(tables, t)
		}
	}
	for _, d := range p.DependsOn {
		tables = append(tables, d.on.tables()...)
	}
	if p.Observed.of != nil {
		tables = append(tables, p.Observed.of.table())
	}
	return tables
}

// startRelated follows what rows are related to, until stop is called.
func (r *Reconciler[Obj]) startRelated(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i, related := range r.p.Related {
		y := newRelay(r, fmt.Sprintf("related %d", i), reasonRelated)
		if t := related.source.table(); t != nil {
			y.name = "related table " + t.Name()
		}
		follow := related.source.begin(y)
		running.Go(func() { follow(ctx) })
	}
	for i, d := range r.p.DependsOn {
		follow := d.on.begin(r, &r.waits[i])
		running.Go(func() { follow(ctx) })
	}
	if r.p.Observed.of != nil {
		follow := r.p.Observed.of.begin(r)
		running.Go(func() { follow(ctx) })
	}
	return func() {
		r.member.leave()
		cancel()
		running.Wait()
	}
}

// relay collects rows that are to be run and hands them over to the deciding
// goroutine. It belongs to the goroutine that follows something.
type relay[Obj any] struct {
	r        *Reconciler[Obj]
	name     string
	send     func(rows []statedb.Query[Obj]) // to be run
	rows     map[string]statedb.Query[Obj]
	gone     map[string]bool // in no table: perhaps to be deleted
	onlyDone bool            // rows that are not are run anyway
	index    string          // that the table is known to have; empty: none
	troubles map[string]error
}

func newRelay[Obj any](r *Reconciler[Obj], name string, why reason) *relay[Obj] {
	y := &relay[Obj]{r: r, name: name, troubles: map[string]error{}}
	y.send = func(rows []statedb.Query[Obj]) {
		_ = r.inbox.trigger(rows, laneChange, why) // refused only when Run ends
	}
	y.clear()
	return y
}

func (y *relay[Obj]) clear() {
	y.rows, y.gone = map[string]statedb.Query[Obj]{}, map[string]bool{}
}

// add collects the rows that queries ask for.
func (y *relay[Obj]) add(txn statedb.ReadTxn, queries []statedb.Query[Obj]) {
	t := y.r.p.Table
	for _, query := range queries {
		found := false
		for obj := range t.List(txn, query) {
			found = true
			if !y.onlyDone || y.r.status.Get(obj).Kind() == Done {
				q := t.KeyQuery(obj)
				y.rows[q.Encoded()] = q
			}
		}
		if !found {
			y.gone[query.Encoded()] = true
		}
	}
}

// flush hands over what was collected.
func (y *relay[Obj]) flush() {
	if len(y.rows) > 0 {
		rows := make([]statedb.Query[Obj], 0, len(y.rows))
		for _, q := range y.rows {
			rows = append(rows, q)
		}
		y.send(rows)
	}
	if gone := y.gone; len(gone) > 0 {
		_ = y.r.inbox.post(func(l *loop[Obj]) { l.hurryDeletes(gone) })
	}
	y.clear()
}

// named calls a function of the user that names rows on behalf of a key. What
// was named before a panic counts.
func (y *relay[Obj]) named(key func() string, fn func() iter.Seq[statedb.Query[Obj]]) (queries []statedb.Query[Obj]) {
	var unknown error
	err := guard(func() {
		if seq := fn(); seq != nil {
			for q := range seq {
				if err := y.known(q); err != nil {
					unknown = err
					continue
				}
				queries = append(queries, q)
			}
		}
	})
	if err == nil {
		err = unknown
	}
	y.trouble(key, err)
	return queries
}

// known returns an error if a query is not of the table: it would find nothing.
func (y *relay[Obj]) known(q statedb.Query[Obj]) error {
	if q.Index() != "" && q.Index() == y.index {
		return nil
	}
	_, err := y.r.p.Table.LenOf(y.r.p.DB.ReadTxn(), q.Index())
	if err == nil {
		y.index = q.Index()
	}
	return err
}

// guard makes an error of a panic.
func guard(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// trouble reports what is wrong with a key, or that nothing is any more.
func (y *relay[Obj]) trouble(keyText func() string, err error) {
	if err == nil && len(y.troubles) == 0 {
		return // as for nearly all keys, whose text is not needed
	}
	key := keyText()
	if err == nil {
		if y.troubles[key] == nil {
			return
		}
		delete(y.troubles, key)
	} else {
		err = fmt.Errorf("%q: %w", key, err)
		y.troubles[key] = err
		var stack []byte
		if p := (*PanicError)(nil); errors.As(err, &p) {
			stack = p.Stack
		}
		y.r.p.Logger.Error("related rows are not known", "reconciler", y.r.p.Name, "of", y.name, "error", err, "stack", string(stack))
	}
	var first error
	for _, k := range sortedKeys(y.troubles) {
		first = y.troubles[k]
		break
	}
	_ = y.r.inbox.post(func(l *loop[Obj]) { l.health.concern(y.name, first) })
}

// watched is a table whose changes make rows run.
type watched[Obj, Child any] struct {
	of     statedb.Table[Child]
	owners func(statedb.ReadTxn, Child) iter.Seq[statedb.Query[Obj]]
}

func (w *watched[Obj, Child]) check() error {
	switch {
	case w.of == nil:
		return errors.New("the table is not set")
	case w.owners == nil:
		return errors.New("the function that names rows is not set")
	}
	return nil
}

func (w *watched[Obj, Child]) table() statedb.TableMeta { return w.of }

func (w *watched[Obj, Child]) begin(y *relay[Obj]) func(context.Context) {
	f := &childFeed[Obj, Child]{watched: w, relay: y, cursor: w.of.Changes(0), last: map[string][]statedb.Query[Obj]{}}
	y.onlyDone = true
	f.read(y.r.p.DB.ReadTxn())
	y.onlyDone = false
	return f.follow
}

// childFeed follows a watched table.
type childFeed[Obj, Child any] struct {
	*watched[Obj, Child]
	relay  *relay[Obj]
	cursor *statedb.Cursor[Child]
	last   map[string][]statedb.Query[Obj] // what each row named last, by its encoded key
}

func (f *childFeed[Obj, Child]) follow(ctx context.Context) {
	defer f.cursor.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.cursor.Watch():
			f.read(f.relay.r.p.DB.ReadTxn())
		}
	}
}

// read hands over the owners of all that has changed.
func (f *childFeed[Obj, Child]) read(txn statedb.ReadTxn) {
	f.collect(txn)
	f.relay.flush()
}

// collect gives the owners of all that has changed to the relay.
func (f *childFeed[Obj, Child]) collect(txn statedb.ReadTxn) {
	lost := false
	for change := range f.cursor.Next(txn) {
		if change.Kind == statedb.Reset {
			lost = true
			continue
		}
		f.changed(txn, change)
	}
	if lost {
		f.forgetGone(txn)
	}
}

func (f *childFeed[Obj, Child]) changed(txn statedb.ReadTxn, change statedb.Change[Child]) {
	key := f.of.KeyQuery(change.Object).Encoded()
	owners := f.relay.named(func() string { return f.of.Key(change.Object) }, func() iter.Seq[statedb.Query[Obj]] { return f.owners(txn, change.Object) })
	if last := f.last[key]; !sameQueries(last, owners) {
		f.relay.add(txn, last)
		f.last[key] = owners
	}
	f.relay.add(txn, owners)
	if change.Kind == statedb.Delete {
		delete(f.last, key)
	}
}

func sameQueries[Obj any](a, b []statedb.Query[Obj]) bool {
	return slices.EqualFunc(a, b, func(a, b statedb.Query[Obj]) bool {
		return a.Index() == b.Index() && a.Encoded() == b.Encoded()
	})
}

// forgetGone hands over the owners of rows whose deletes were lost.
func (f *childFeed[Obj, Child]) forgetGone(txn statedb.ReadTxn) {
	there := map[string]bool{}
	for child := range f.of.All(txn) {
		there[f.of.KeyQuery(child).Encoded()] = true
	}
	for key, owners := range f.last {
		if !there[key] {
			f.relay.add(txn, owners)
			delete(f.last, key)
		}
	}
}

// eventBatch is how many events are handed over together, at most.
const eventBatch = 256

// eventSource is a channel whose elements make rows run.
type eventSource[Obj, Event any] struct {
	events <-chan Event
	rows   func(statedb.ReadTxn, Event) iter.Seq[statedb.Query[Obj]]
}

func (s *eventSource[Obj, Event]) check() error {
	switch {
	case s.events == nil:
		return errors.New("the channel is nil")
	case s.rows == nil:
		return errors.New("the function that names rows is not set")
	}
	return nil
}

func (s *eventSource[Obj, Event]) table() statedb.TableMeta { return nil }

func (s *eventSource[Obj, Event]) begin(y *relay[Obj]) func(context.Context) {
	y.send = func(rows []statedb.Query[Obj]) { _ = y.r.inbox.trigger(rows, laneChange, reasonEvent) }
	return func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-s.events:
				if !open {
					return
				}
				s.take(y, event)
			}
		}
	}
}

// take hands over the rows of an event, and of those that are there already.
func (s *eventSource[Obj, Event]) take(y *relay[Obj], event Event) {
	defer y.flush()
	txn := y.r.p.DB.ReadTxn()
	for range eventBatch {
		y.add(txn, y.named(func() string { return "event" }, func() iter.Seq[statedb.Query[Obj]] { return s.rows(txn, event) }))
		select {
		case next, open := <-s.events:
			if !open {
				return
			}
			event = next
		default:
			return
		}
	}
}

// hurryDeletes makes deletes ready that have not succeeded yet, by encoded key.
func (l *loop[Obj]) hurryDeletes(keys map[string]bool) {
	for _, key := range sortedKeys(keys) {
		if it := l.queue.items[key]; it != nil && it.deleting {
			l.queue.enqueue(it, laneChange, reasonRelated)
		}
	}
}
