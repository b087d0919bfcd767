package reconciler_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a table, a fake target and a reconciler between them.
type world struct {
	t       *testing.T
	db      *statedb.DB
	table   rowTable
	notDone *statedb.RWTable[reconciler.NotDone]
	target  *fake
	prunes  bool // the target cannot observe
	batches bool // it takes rows together, unless it prunes
	name    string
	field   *reconciler.StatusField[row] // nil: the one that the row type names
	config  reconciler.Config
	seed    uint64 // of the jitter, if not 0
	origin  func(table, key string) string
	sights  *watchful                     // what is observed of the rows, if anything
	params  func(*reconciler.Params[row]) // changes them before the start
	health  *healthLog
	moves   *moves
	others  *world   // around a table of the same database, if a test needs one
	after   bool     // rows depend on those of the world that this one is one of the others of
	made    []runner // the last one is that of r, if rows are by value
	r       *reconciler.Reconciler[row]
	cancel  context.CancelFunc
	ended   chan error
}

// rows is the table of a world whose rows are by value.
func (w *world) rows() *statedb.RWTable[row] { return w.table.(*statedb.RWTable[row]) }

func newWorld(t *testing.T) *world {
	t.Helper()
	db := statedb.New()
	w := &world{
		t: t, db: db, target: newFake(), health: &healthLog{}, moves: &moves{},
		table:   must(statedb.NewTable(db, rowSchema())),
		notDone: must(statedb.NewTable(db, reconciler.NotDoneSchema())),
	}
	w.target.promise = w.promise
	// Full passes come when a test asks for them.
	w.config.FullInterval = -1
	return w
}

// promise checks what holds for every operation. Rows whose id begins with "old"
// are never in the table: to delete one is to remove an orphan.
func (w *world) promise(c call, txn statedb.ReadTxn, r row) string {
	incomplete := false
	for _, s := range w.table.Sources(txn) {
		incomplete = incomplete || s.Incomplete != ""
		if !s.Initialized {
			return "before " + s.Name + " is initialized"
		}
	}
	current, _, there := w.table.Get(txn, byID.Query(r.ID))
	switch {
	case c.op == "update" && current != r:
		return "with a row that is not the newest"
	case c.op == "delete" && there:
		return "of a row that is there"
	case incomplete && (c.op == "prune" || c.op == "delete" && strings.HasPrefix(c.id, "old")):
		return "of orphans while a source is incomplete"
	}
	return ""
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// another is a world around the same table, whose status is in a field.
func (w *world) another(name string, field reconciler.StatusField[row]) *world {
	other := *w
	other.name, other.field = name, &field
	other.target, other.health, other.made = newFake(), &healthLog{}, nil
	other.target.promise = other.promise
	other.r, other.cancel, other.ended = nil, nil, nil
	return &other
}

// statusOf returns the status that this world's reconciler writes.
func (w *world) statusOf(r row) reconciler.Status {
	if w.field != nil {
		return w.field.Get(r)
	}
	return r.Status
}

// latest is the reconciler that was started last.
func (w *world) latest() runner { return w.made[len(w.made)-1] }

// start makes a new reconciler and lets it do what there is to do.
func (w *world) start() {
	w.t.Helper()
	w.launch()
	synctest.Wait()
}

func (w *world) launch() {
	w.t.Helper()
	p := reconciler.Params[row]{
		Name: w.name, DB: w.db, Table: w.rows(), Target: w.kindOfTarget(), NotDone: w.notDone,
		Config: w.config, Health: w.health, Origin: w.origin,
	}
	if w.params != nil {
		w.params(&p)
	}
	r, err := reconciler.New(p)
	if w.field != nil {
		r, err = reconciler.NewWithStatus(p, *w.field)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.r = r
	w.run(r)
}

func (w *world) kindOfTarget() reconciler.Target[row] {
	switch {
	case w.prunes:
		return w.target
	case w.batches:
		return &batching{observing: observing{w.target}}
	default:
		return observing{w.target}
	}
}

// run lets a reconciler run until stop is called.
func (w *world) run(r runner) {
	if w.seed != 0 {
		r.Seed(w.seed)
	}
	r.OnMove(w.moves.add)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w.made, w.cancel, w.ended = append(w.made, r), cancel, ended
	w.t.Cleanup(cancel)
	go func() { ended <- r.Run(ctx) }()
}

// stop ends the reconciler, if it runs, and checks what holds for every run.
func (w *world) stop() {
	w.t.Helper()
	if w.ended == nil {
		return
	}
	defer func() { w.ended = nil }()
	w.cancel()
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Errorf("Run: %v", err)
		}
	case <-time.After(time.Hour):
		w.t.Fatal("Run has not returned an hour after the end of its context")
	}
	w.wantKnownMoves()
	if len(w.target.faults) > 0 {
		w.t.Errorf("promises broken: %q", w.target.faults)
	}
}

// running runs a test in a bubble with a world whose reconciler has started.
func running(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	prepared(t, func(*world) {}, test)
}

// prepared is running with something done to the world before the start.
func prepared(t *testing.T, prepare func(*world), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		prepare(w)
		w.start()
		test(t, w)
		w.stop()
	})
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) update(fn func(txn *statedb.WriteTxn) error) {
	w.t.Helper()
	if err := w.db.Update(context.Background(), fn, w.table); err != nil {
		w.t.Fatal(err)
	}
}

// write puts rows into the table and does not wait.
func (w *world) write(rows ...row) {
	w.t.Helper()
	w.update(func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			if _, _, err := w.table.Insert(txn, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// put writes rows and lets the reconciler do what it can without time going by.
func (w *world) put(rows ...row) {
	w.t.Helper()
	w.write(rows...)
	synctest.Wait()
}

func (w *world) erase(ids ...string) {
	w.t.Helper()
	w.update(func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := w.table.Delete(txn, row{ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) delete(ids ...string) {
	w.t.Helper()
	w.erase(ids...)
	synctest.Wait()
}

func (w *world) source(name string) *statedb.Source {
	w.t.Helper()
	var source *statedb.Source
	w.update(func(txn *statedb.WriteTxn) (err error) {
		source, err = w.rows().RegisterSource(txn, name)
		return err
	})
	return source
}

// feed is a source, whatever the rows of its table.
type feed interface {
	Initialized(txn *statedb.WriteTxn) error
	Incomplete(txn *statedb.WriteTxn, reason string) error
	Complete(txn *statedb.WriteTxn) error
}

// feed registers a source.
func (w *world) feed(name string) feed {
	w.t.Helper()
	pointers, ok := w.table.(pointerTable)
	if !ok {
		return w.source(name)
	}
	var source feed
	w.update(func(txn *statedb.WriteTxn) (err error) {
		source, err = pointers.of.RegisterSource(txn, name)
		return err
	})
	return source
}

func (w *world) fullPass() {
	w.r.FullPass()
	synctest.Wait()
}

func (w *world) status(id string) reconciler.Status {
	w.t.Helper()
	r, _, found := w.table.Get(w.db.ReadTxn(), byID.Query(id))
	if !found {
		w.t.Fatalf("row %s is not there", id)
	}
	return w.statusOf(r)
}

func (w *world) notDoneRows() []reconciler.NotDone {
	rows := []reconciler.NotDone{}
	for r := range w.notDone.All(w.db.ReadTxn()) {
		rows = append(rows, r)
	}
	return rows
}

// wantLog checks the operations since the last look, in order.
func (w *world) wantLog(want ...string) {
	w.t.Helper()
	w.equal("operations", append([]string{}, want...), w.target.log())
}

func (w *world) wantStatus(id, want string) {
	w.t.Helper()
	w.equal("status of "+id, want, w.status(id).String())
}

func (w *world) wantTarget(want map[string]int) {
	w.t.Helper()
	w.equal("target", want, w.target.state())
}

func (w *world) equal(what string, want, got any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantConverged checks that all that is wanted is there and known to be.
func (w *world) wantConverged() {
	w.t.Helper()
	want := map[string]int{}
	for r := range w.table.All(w.db.ReadTxn()) {
		want[r.ID] = r.Want
		if status := w.statusOf(r); status.Kind() != reconciler.Done {
			w.t.Errorf("row %s is %v", r.ID, status)
		}
	}
	w.wantTarget(want)
	w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
}
