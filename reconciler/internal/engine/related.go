package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Related is a source of changes that make rows run: [Watched] or [Events].
type Related interface {
	check() error
	// table returns nil if there is none.
	table() *store.Table
	// begin reads the current state and returns the function that follows its changes.
	begin(y *relay) (follow func(context.Context))
}

// Naming yields queries for the rows of the reconciled table that something refers to.
type Naming func(txn store.ReadTxn, yield func(store.Query) bool)

// checkRelated returns an error if one of Related is invalid.
func (p Params) checkRelated() error {
	for i, related := range p.Related {
		if related == nil {
			return fmt.Errorf("Params.Related[%d] is empty: make it with Watches or Events", i)
		}
		if err := related.check(); err != nil {
			return fmt.Errorf("Params.Related[%d]: %w", i, err)
		}
	}
	return nil
}

// checkDependencies returns an error if one of DependsOn DeletedBefore or DeletedAfter is invalid.
func (p Params) checkDependencies() error {
	for name, all := range map[string][]Dependency{"DependsOn": p.DependsOn, "DeletedBefore": p.DeletedBefore, "DeletedAfter": p.DeletedAfter} {
		for i, d := range all {
			if err := d.Check(); err != nil {
				return fmt.Errorf("Params.%s[%d]: %w", name, i, err)
			}
		}
	}
	return nil
}

// deletedBefore returns what has to be deleted after rows of the table.
func (p Params) deletedBefore() []Dependency { return slices.Concat(p.DependsOn, p.DeletedBefore) }

// relatedTables returns the other tables that the reconciler reads.
func (p Params) relatedTables() (tables []*store.Table) {
	for _, related := range p.Related {
		if t := related.table(); t != nil {
			tables = append(tables, t)
		}
	}
	for _, d := range append(p.deletedBefore(), p.DeletedAfter...) {
		tables = append(tables, d.Tables()...)
	}
	if p.Observed != nil {
		tables = append(tables, p.Observed.Table)
	}
	return tables
}

// followers are the goroutines that follow related tables, events, dependencies and observations.
type followers struct {
	r      *Engine
	cancel context.CancelFunc
	ended  []follower
}

type follower struct {
	name string
	done chan struct{}
}

// startRelated starts the followers, which run until stop is called.
func (r *Engine) startRelated(ctx context.Context) *followers {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{r: r, cancel: cancel}
	for i, related := range r.p.Related {
		y := newRelay(r, fmt.Sprintf("related %d", i), workqueue.Related)
		if t := related.table(); t != nil {
			y.name = "related table " + t.Name()
		}
		f.run(ctx, y.name, related.begin(y))
	}
	for i := range r.p.DependsOn {
		f.run(ctx, "table "+r.p.DependsOn[i].Table.Name(), r.depends.Follow(i))
	}
	if o := r.p.Observed; o != nil {
		f.run(ctx, "observed table "+o.Table.Name(), r.compareRows(o))
	}
	return f
}

func (f *followers) run(ctx context.Context, name string, follow func(context.Context)) {
	done := make(chan struct{})
	f.ended = append(f.ended, follower{name, done})
	go func() {
		defer close(done)
		follow(ctx)
	}()
}

// stop ends the followers. Those that have not ended by the given time, because a user's function
// has not returned, are abandoned and named by the error.
func (f *followers) stop(by time.Time) error {
	f.r.member.Leave()
	f.cancel()
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	var errs []error
	for _, g := range f.ended {
		select {
		case <-g.done:
			continue
		default:
		}
		select {
		case <-g.done:
		case <-timer.C:
			timer.Reset(0)
			errs = append(errs, fmt.Errorf("reconciler %s stopped: a function that names rows of %s has not returned", f.r.p.Name, g.name))
		}
	}
	return errors.Join(errs...)
}

// relay collects rows that are to run and hands them to the loop. It belongs to the goroutine of a
// follower.
type relay struct {
	r        *Engine
	name     string
	send     func(keys []string) // passes on the rows to run
	rows     map[string]bool     // by encoded key
	gone     map[string]bool     // not in the table: a delete may be pending
	onlyDone bool                // skip rows that are not done, because they run anyway
	index    string              // an index that the table is known to have
	problems map[string]error
}

func newRelay(r *Engine, name string, why workqueue.Reason) *relay {
	y := &relay{r: r, name: name, problems: map[string]error{}}
	y.send = func(rows []string) {
		_ = r.inbox.trigger(rows, workqueue.Changes, why) // refused only when Run ends
	}
	y.clear()
	return y
}

func (y *relay) clear() {
	y.rows, y.gone = map[string]bool{}, map[string]bool{}
}

// add collects the rows that match queries.
func (y *relay) add(txn store.ReadTxn, queries []store.Query) {
	t := y.r.p.Table
	for _, query := range queries {
		found := false
		for e := range t.List(txn, query, nil).Entries() {
			found = true
			if !y.onlyDone || y.r.status(e).Kind() == Done {
				y.rows[keyOf(e)] = true
			}
		}
		if !found {
			y.gone[string(query.Key)] = true
		}
	}
}

// flush hands the collected rows to the loop.
func (y *relay) flush() {
	if len(y.rows) > 0 {
		y.send(slices.Collect(maps.Keys(y.rows)))
	}
	if gone := y.gone; len(gone) > 0 {
		_ = y.r.inbox.post(func(l *loop) { l.hurryDeletes(gone) })
	}
	y.clear()
}

// named calls a user's function that names rows, on behalf of a key. Rows named before a panic
// count.
func (y *relay) named(txn store.ReadTxn, key func() string, rows Naming) (queries []store.Query) {
	var unknown error
	err := pool.Guard(func() {
		rows(txn, func(q store.Query) bool {
			if err := y.known(q); err != nil {
				unknown = err
			} else {
				queries = append(queries, q)
			}
			return true
		})
	})
	if err == nil {
		err = unknown
	}
	y.trouble(key, err)
	return queries
}

// known returns an error if the table does not have the index of a query.
func (y *relay) known(q store.Query) error {
	name := q.Index.NameOrNone()
	if name != "" && name == y.index {
		return nil
	}
	_, err := y.r.p.Table.LenOf(y.r.p.DB.ReadTxn(), name)
	if err == nil {
		y.index = name
	}
	return err
}

// trouble reports a problem with a key, or that it has ended if err is nil.
func (y *relay) trouble(keyText func() string, err error) {
	if err == nil && len(y.problems) == 0 {
		return // the common case, in which the text is not needed
	}
	key := keyText()
	if err == nil {
		if y.problems[key] == nil {
			return
		}
		delete(y.problems, key)
	} else {
		err = fmt.Errorf("%q: %w", key, err)
		y.problems[key] = err
		var stack []byte
		if p := (*PanicError)(nil); errors.As(err, &p) {
			stack = p.Stack
		}
		y.r.p.Logger.Error("related rows could not be determined", "reconciler", y.r.p.Name, "of", y.name, "error", err, "stack", string(stack))
	}
	var first error
	for _, k := range sortedKeys(y.problems) {
		first = y.problems[k]
		break
	}
	_ = y.r.inbox.post(func(l *loop) { l.health.concern(y.name, first) })
}

// Watched is a table whose changes make rows run.
type Watched struct {
	Table *store.Table
	// Rows yields the rows that a row of Table refers to.
	Rows func(txn store.ReadTxn, row *store.Entry, yield func(store.Query) bool)
	// By returns what of a row of Table matters, which is comparable. It is nil if all of the row matters.
	By func(row *store.Entry) any
}

func (w *Watched) check() error {
	switch {
	case w.Table == nil:
		return errors.New("the table is not set")
	case w.Rows == nil:
		return errors.New("the function that names rows is not set")
	}
	return nil
}

func (w *Watched) table() *store.Table { return w.Table }

func (w *Watched) begin(y *relay) func(context.Context) {
	f := w.feed(y)
	y.onlyDone = true
	f.read(y.r.p.DB.ReadTxn())
	y.onlyDone = false
	return f.follow
}

// feed follows the table from its beginning.
func (w *Watched) feed(y *relay) *childFeed {
	return &childFeed{Watched: w, relay: y, cursor: w.Table.Changes(0), last: map[string]nomination{}}
}

// childFeed follows a watched table.
type childFeed struct {
	*Watched
	relay  *relay
	cursor *store.Cursor
	last   map[string]nomination // by the encoded key of a row of the table
}

// nomination is what a row of a watched table named last.
type nomination struct {
	rows []store.Query
	part any // the result of By
}

func (f *childFeed) follow(ctx context.Context) {
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

// read hands the owners of all changed rows to the loop.
func (f *childFeed) read(txn store.ReadTxn) {
	f.collect(txn)
	f.relay.flush()
}

// collect adds the owners of all changed rows to the relay.
func (f *childFeed) collect(txn store.ReadTxn) {
	lost := false
	for change := range f.cursor.Changes(txn) {
		if change.Kind == store.Reset {
			lost = true
			continue
		}
		f.changed(txn, change, lost)
	}
	if lost {
		f.forgetGone(txn)
	}
}

// changed adds the owners of a changed row. If changes were lost, the row may have changed more than it seems.
func (f *childFeed) changed(txn store.ReadTxn, change store.Change, lost bool) {
	key := keyOf(change.Entry)
	text := func() string { return f.Table.KeyText(change.Entry) }
	last, known := f.last[key]
	var now nomination
	now.rows = f.relay.named(txn, text, func(txn store.ReadTxn, yield func(store.Query) bool) {
		if f.By != nil {
			now.part = f.By(change.Entry)
		}
		f.Rows(txn, change.Entry, yield)
	})
	same := sameQueries(last.rows, now.rows)
	if known && same && f.By != nil && now.part == last.part && change.Kind != store.Delete && !lost {
		return
	}
	if !same {
		f.relay.add(txn, last.rows)
	}
	f.relay.add(txn, now.rows)
	if f.last[key] = now; change.Kind == store.Delete {
		delete(f.last, key)
	}
}

func sameQueries(a, b []store.Query) bool {
	return slices.EqualFunc(a, b, func(a, b store.Query) bool {
		return a.Index == b.Index && bytes.Equal(a.Key, b.Key)
	})
}

// forgetGone adds the owners of rows whose deletes the feed has lost.
func (f *childFeed) forgetGone(txn store.ReadTxn) {
	there := map[string]bool{}
	for child := range f.Table.All(txn, nil).Entries() {
		there[keyOf(child)] = true
	}
	for key, last := range f.last {
		if !there[key] {
			f.relay.add(txn, last.rows)
			delete(f.last, key)
		}
	}
}

// eventBatch is the most events handed over at once.
const eventBatch = 256

// Events is a channel whose elements make rows run.
type Events struct {
	// Receive waits for the next event. Next returns one that is already there, or nil. Both
	// report false when the channel is closed or ctx has ended.
	Receive func(ctx context.Context) (Naming, bool)
	Next    func() (Naming, bool)
	Err     error // the error of an invalid declaration, or nil
}

func (s *Events) check() error        { return s.Err }
func (s *Events) table() *store.Table { return nil }

func (s *Events) begin(y *relay) func(context.Context) {
	y.send = func(keys []string) { _ = y.r.inbox.trigger(keys, workqueue.Changes, workqueue.Event) }
	return func(ctx context.Context) {
		for event, open := s.Receive(ctx); open; event, open = s.Receive(ctx) {
			s.take(y, event)
		}
	}
}

// take hands over the rows of an event, and of events that are already there.
func (s *Events) take(y *relay, event Naming) {
	defer y.flush()
	txn := y.r.p.DB.ReadTxn()
	for n, open := 0, true; n < eventBatch && open && event != nil; n++ {
		y.add(txn, y.named(txn, func() string { return "event" }, event))
		event, open = s.Next()
	}
}

// hurryDeletes makes pending deletes ready, by encoded key.
func (l *loop) hurryDeletes(keys map[string]bool) {
	for _, key := range sortedKeys(keys) {
		if it := l.queue.Items[key]; it != nil && it.Deleting {
			l.enqueue(it, workqueue.Changes, workqueue.Related, time.Now())
		}
	}
}
