package derive_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is the row of the inputs.
type item struct {
	ID     string
	Group  string
	Number int
	Tags   string
}

var (
	byID    = statedb.NewIndex("id", func(i item) string { return i.ID })
	byGroup = statedb.NewIndex("group", func(i item) string { return i.Group })
)

var errAborted = errors.New("aborted")

func newTable[Obj any](t *testing.T, db *statedb.DB, schema statedb.Schema[Obj]) *statedb.RWTable[Obj] {
	t.Helper()
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		t.Fatalf("table %s: %v", schema.Name, err)
	}
	return table
}

func check(t *testing.T, where string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
}

func wantError(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error %v, expected %v", err, target)
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// joined is what the derived table of most tests holds: for each item on the
// left, the sum of the numbers on the right that have its group.
type joined struct {
	ID    string
	Group string
	Sum   int
	Rows  int
}

var joinedByID = statedb.NewIndex("id", func(j joined) string { return j.ID })

// derivation is one with two inputs, and all that a test does with them.
type derivation struct {
	t           *testing.T
	db          *statedb.DB
	left, right *statedb.RWTable[item]
	out         *statedb.RWTable[joined]
	spec        derive.Spec[joined, string]

	computed []string                                   // keys, since it was last asked
	hook     func(txn statedb.ReadTxn, id string) error // called by compute
	derived  *derive.Derivation[joined, string]
	cancel   context.CancelFunc
	ended    chan error
	fence    atomic.Int32 // between the goroutines of the test and of the derivation
}

func newDerivation(t *testing.T, schema ...func(*statedb.Schema[joined])) *derivation {
	t.Helper()
	db := statedb.New()
	out := statedb.Schema[joined]{Name: "joined", Primary: joinedByID}
	for _, change := range schema {
		change(&out)
	}
	input := func(name string) *statedb.RWTable[item] {
		return newTable(t, db, statedb.Schema[item]{Name: name, Primary: byID, Secondary: []statedb.Indexer[item]{byGroup}})
	}
	d := &derivation{t: t, db: db, left: input("left"), right: input("right"), out: newTable(t, db, out)}
	d.spec = derive.Spec[joined, string]{
		Output:  d.out,
		Primary: joinedByID,
		Logger:  slog.New(slog.DiscardHandler),
		Inputs: []derive.Input[string]{
			derive.From(statedb.ReadOnly(d.left), func(_ statedb.ReadTxn, row item, affects func(string)) { affects(row.ID) }),
			derive.From(statedb.ReadOnly(d.right), d.leftsOf),
		},
		Compute: d.compute,
	}
	return d
}

func (d *derivation) leftsOf(txn statedb.ReadTxn, row item, affects func(string)) {
	for left := range d.left.List(txn, byGroup.Query(row.Group)) {
		affects(left.ID)
	}
}

func (d *derivation) compute(txn statedb.ReadTxn, id string) (joined, bool, error) {
	d.fence.Add(1)
	d.computed = append(d.computed, id)
	if d.hook != nil {
		if err := d.hook(txn, id); err != nil {
			return joined{}, false, err
		}
	}
	row, exists := d.join(txn, id)
	return row, exists, nil
}

// join is a row as it follows from the inputs: there is none without a row on
// the right.
func (d *derivation) join(txn statedb.ReadTxn, id string) (joined, bool) {
	left, _, exists := d.left.Get(txn, byID.Query(id))
	row := joined{ID: id, Group: left.Group}
	for right := range d.right.List(txn, byGroup.Query(left.Group)) {
		row.Sum += right.Number
		row.Rows++
	}
	return row, exists && row.Rows > 0
}

// sleep lets time go by until there is nothing left to do. What the test has
// changed before, functions of the derivation see.
func (d *derivation) sleep(long time.Duration) {
	d.fence.Add(1)
	time.Sleep(long)
	synctest.Wait()
}

// start begins to run it. The test has to be in a bubble.
func (d *derivation) start() {
	d.t.Helper()
	derived, err := derive.New(d.t.Context(), d.spec)
	if err != nil {
		d.t.Fatal(err)
	}
	d.run(derived)
}

func (d *derivation) run(derived *derive.Derivation[joined, string]) {
	ctx, cancel := context.WithCancel(d.t.Context())
	d.derived, d.cancel, d.ended = derived, cancel, make(chan error, 1)
	go func() { d.ended <- derived.Run(ctx) }()
	synctest.Wait()
}

func (d *derivation) stop() {
	d.t.Helper()
	d.cancel()
	d.end(context.Canceled)
}

func (d *derivation) end(want error) {
	d.t.Helper()
	if err := <-d.ended; !errors.Is(err, want) {
		d.t.Errorf("Run returned %v, expected %v", err, want)
	}
	d.cancel()
}

// write changes both inputs in one transaction and waits until that is derived.
func (d *derivation) write(fn func(txn *statedb.WriteTxn) error) {
	d.t.Helper()
	d.commit(fn)
	synctest.Wait()
}

func (d *derivation) commit(fn func(txn *statedb.WriteTxn) error) {
	d.t.Helper()
	if err := d.db.Update(d.t.Context(), fn, d.left, d.right); err != nil {
		d.t.Fatal(err)
	}
}

func (d *derivation) put(table *statedb.RWTable[item], rows ...item) {
	d.t.Helper()
	d.write(inserting(table, rows...))
}

func (d *derivation) remove(table *statedb.RWTable[item], ids ...string) {
	d.t.Helper()
	d.write(func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := table.Delete(txn, item{ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func inserting[Obj any](table *statedb.RWTable[Obj], rows ...Obj) func(*statedb.WriteTxn) error {
	return func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}
}

// want compares the output, as "id=sum" in key order.
func (d *derivation) want(want ...string) {
	d.t.Helper()
	var got []string
	for row := range d.out.All(d.db.ReadTxn()) {
		got = append(got, fmt.Sprintf("%s=%d", row.ID, row.Sum))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		d.t.Errorf("the output is not as expected (-want +got):\n%s", diff)
	}
}

// wantComputed compares the keys that were computed since it was last called.
func (d *derivation) wantComputed(want ...string) {
	d.t.Helper()
	if diff := gocmp.Diff(want, d.computed); diff != "" {
		d.t.Errorf("other keys were computed than expected (-want +got):\n%s", diff)
	}
	d.computed = nil
}

// differs compares the output with what follows from the inputs.
func (d *derivation) differs() error {
	txn := d.db.ReadTxn()
	want, got := map[string]joined{}, map[string]joined{}
	for left := range d.left.All(txn) {
		if row, exists := d.join(txn, left.ID); exists {
			want[left.ID] = row
		}
	}
	for row := range d.out.All(txn) {
		got[row.ID] = row
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the output is not what follows from the inputs (-want +got):\n%s", diff)
	}
	return nil
}
