package dryrun_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/dryrun"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is a row of any of the kinds. On names a thing of another kind that it is on, or "all of" those with a value.
type thing struct {
	Name, Value, On string
	Status          reconciler.Status
}

func (x thing) GetStatus() reconciler.Status              { return x.Status }
func (x thing) WithStatus(status reconciler.Status) thing { x.Status = status; return x }

var byName = statedb.NewIndex("name", func(x thing) string { return x.Name })

var byValue = statedb.NewIndex("value", func(x thing) string { return x.Value })

// world is a target that must not be told to change anything.
type world struct {
	t       testing.TB
	ours    map[string]string
	others  map[string]string
	on      map[string]string // what ours are on
	lacking map[string]bool   // what rows may be on
	err     error             // of the listing
}

var (
	errForeign = errors.New("others have it")
	errWrite   = errors.New("a plan must not write")
	errAbsent  = errors.New("what it is on is not there")
)

func (w *world) Init(context.Context) error { w.t.Error("Init is called"); return errWrite }

func (w *world) Update(context.Context, statedb.ReadTxn, thing) (reconciler.Result, error) {
	w.t.Error("Update is called")
	return reconciler.Result{}, errWrite
}

func (w *world) Delete(context.Context, statedb.ReadTxn, thing) error {
	w.t.Error("Delete is called")
	return errWrite
}

func (w *world) Prune(context.Context, statedb.ReadTxn, iter.Seq2[thing, statedb.Revision]) (int, error) {
	w.t.Error("Prune is called")
	return 0, errWrite
}

func (w *world) Observe(context.Context) iter.Seq2[thing, error] {
	return func(yield func(thing, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(w.ours)) {
			if !yield(thing{Name: name, On: w.on[name]}, nil) {
				return
			}
		}
		if w.err != nil {
			yield(thing{}, w.err)
		}
	}
}

func (w *world) Diff(_ context.Context, _ statedb.ReadTxn, x thing) ([]reconciler.Change, error) {
	is, ours := w.ours[x.Name]
	_, foreign := w.others[x.Name]
	switch {
	case x.Value == "panic":
		panic("ouch")
	case x.Value == "invalid":
		return nil, reconciler.Terminal(errors.New("it is not valid"))
	case x.On != "" && !w.lacking[x.On]:
		return nil, errAbsent
	case foreign && x.Value == "take":
		return []reconciler.Change{{Field: "value", Is: w.others[x.Name], Want: x.Value}}, nil
	case foreign:
		return nil, errForeign
	case ours && is == x.Value:
		return nil, nil
	}
	return []reconciler.Change{{Field: "value", Is: is, Want: x.Value}}, nil
}

// batching compares rows together.
type batching struct {
	*world
	batches int
}

func (b *batching) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []thing) []reconciler.DiffResult {
	b.batches++
	results := make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Changes, results[i].Err = b.Diff(ctx, txn, row)
	}
	return results
}

// fixture has kinds whose rows are on rows of the kind before.
type fixture struct {
	t     testing.TB
	db    *statedb.DB
	kinds []dryrun.Kind
	table map[string]*statedb.RWTable[thing]
}

func newFixture(t testing.TB) *fixture {
	return &fixture{t: t, db: statedb.New(), table: map[string]*statedb.RWTable[thing]{}}
}

func (f *fixture) kind(name string, target reconciler.Target[thing], on string) {
	f.t.Helper()
	schema := reconciler.Reconciled(statedb.Schema[thing]{Name: name + "s", Primary: byName, Secondary: []statedb.Indexer[thing]{byValue}})
	table, err := statedb.NewTable(f.db, schema)
	if err != nil {
		f.t.Fatal(err)
	}
	f.table[name] = table
	c := dryrun.Config[thing]{Name: name, Schema: schema, Table: statedb.ReadOnly(table), Target: target}
	if on != "" {
		c.DependsOn = []reconciler.Dependency[thing]{reconciler.DependsOn(statedb.ReadOnly(f.table[on]), thing.GetStatus, func(x thing) iter.Seq[statedb.Query[thing]] {
			if value, all := strings.CutPrefix(x.On, "all of "); all {
				return slices.Values([]statedb.Query[thing]{byValue.Query(value)})
			}
			return slices.Values([]statedb.Query[thing]{byName.Query(x.On)})
		})}
	}
	k, err := dryrun.NewKind(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.kinds = append(f.kinds, k)
}

func rowOf(kind, name, value, on string) dryrun.Row {
	return dryrun.Row{Kind: kind, Key: name, Value: thing{Name: name, Value: value, On: on}, Origin: "f.yaml:1:1"}
}

func (f *fixture) plan(rows ...dryrun.Row) dryrun.Plan {
	f.t.Helper()
	p, err := dryrun.Make(f.t.Context(), dryrun.Params{Txn: f.db.ReadTxn(), Kinds: f.kinds, Rows: rows})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// texts is a line for each operation, and one for the counts.
func texts(p dryrun.Plan) (lines []string) {
	for _, op := range p.Operations {
		line := fmt.Sprintf("%s %s %s", op.Action, op.Kind, op.Key)
		for _, c := range op.Changes {
			line += fmt.Sprintf(" %s:%s>%s", c.Field, c.Is, c.Want)
		}
		if len(op.After) > 0 {
			line += " after " + strings.Join(op.After, ", ")
		}
		if op.Error != "" {
			line += ": " + op.Error
		}
		lines = append(lines, line)
	}
	return append(lines, fmt.Sprint(p.Create, p.Change, p.Delete, p.Errors, p.Unchanged))
}

func want(t *testing.T, p dryrun.Plan, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, texts(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestAPlanIsInTheOrderOfDependencies(t *testing.T) {
	f := newFixture(t)
	links := &world{t: t, ours: map[string]string{"old": "1", "same": "1", "wrong": "1"}, others: map[string]string{"foreign": "9", "given": "9"}}
	addresses := &batching{world: &world{t: t, ours: map[string]string{"gone": "1", "stale": "1"}, lacking: map[string]bool{"same": true, "wrong": true}}}
	routes := &world{t: t, ours: map[string]string{"left": "1"}}
	f.kind("z-link", links, "")
	f.kind("address", addresses, "z-link")
	f.kind("b-route", routes, "address")
	want(t, f.plan(
		rowOf("b-route", "r", "1", "n"),
		rowOf("address", "n", "1", "new"), rowOf("address", "stale", "2", "wrong"), rowOf("address", "vain", "1", "foreign"), rowOf("address", "lost", "1", "nowhere"),
		rowOf("address", "bad", "invalid", "new"), rowOf("address", "ouch", "panic", "same"),
		rowOf("z-link", "same", "1", ""), rowOf("z-link", "wrong", "2", ""), rowOf("z-link", "new", "1", ""),
		rowOf("z-link", "foreign", "1", ""), rowOf("z-link", "given", "take", ""),
	),
		"error z-link foreign: others have it",
		"change z-link given value:9>take",
		"create z-link new value:>1",
		"change z-link wrong value:1>2",
		"error address bad after z-link new: it is not valid",
		"error address lost: what it is on is not there",
		"create address n after z-link new",
		"error address ouch: panic: ouch",
		"change address stale value:1>2 after z-link wrong",
		"error address vain after z-link foreign: what it is on is not there",
		"create b-route r after address n",
		"delete b-route left",
		"delete address gone",
		"delete z-link old",
		"3 3 3 5 1",
	)
	if addresses.batches != 1 {
		t.Errorf("DiffBatch was called %d times", addresses.batches)
	}
	want(t, newFixtureOf(t, &world{t: t}).plan(), "0 0 0 0 0")
}

func newFixtureOf(t *testing.T, target reconciler.Target[thing]) *fixture {
	t.Helper()
	f := newFixture(t)
	f.kind("thing", target, "")
	return f
}

func TestAListingThatFailsIsNoPlan(t *testing.T) {
	f := newFixtureOf(t, &world{t: t, ours: map[string]string{"a": "1"}, err: errors.New("cut short")})
	_, err := dryrun.Make(t.Context(), dryrun.Params{Txn: f.db.ReadTxn(), Kinds: f.kinds})
	if err == nil || err.Error() != "kind thing: list what there is: cut short" {
		t.Errorf("Make: %v", err)
	}
	_, err = dryrun.Make(t.Context(), dryrun.Params{Txn: f.db.ReadTxn(), Rows: []dryrun.Row{rowOf("other", "a", "1", "")}})
	if err == nil || !strings.Contains(err.Error(), `of unknown kind "other"`) {
		t.Errorf("Make of an unknown kind: %v", err)
	}
	_, err = dryrun.Make(t.Context(), dryrun.Params{Txn: f.db.ReadTxn(), Kinds: slices.Concat(f.kinds, f.kinds)})
	if err == nil || !strings.Contains(err.Error(), `two kinds are named "thing"`) {
		t.Errorf("Make of two kinds of one name: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f = newFixtureOf(t, &world{t: t})
	if _, err := dryrun.Make(ended, dryrun.Params{Txn: f.db.ReadTxn(), Kinds: f.kinds}); !errors.Is(err, context.Canceled) {
		t.Errorf("Make with a context that has ended: %v", err)
	}
}

// plain can neither list nor compare.
type plain struct{ reconciler.Target[thing] }

func TestATargetThatCannotCompareSaysSo(t *testing.T) {
	f := newFixtureOf(t, plain{&world{t: t}})
	f.insert(thing{Name: "kept"}, thing{Name: "withdrawn"})
	want(t, f.plan(rowOf("thing", "kept", "1", "")),
		"error thing kept: the target of this kind cannot say what it would change", "delete thing withdrawn", "0 0 1 1 0")
}

func (f *fixture) insert(rows ...thing) {
	f.t.Helper()
	table := f.table["thing"]
	err := f.db.Update(f.t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestAnAgentSaysWhatItHasOfRows(t *testing.T) {
	f := newFixtureOf(t, &world{t: t, ours: map[string]string{"leaving": "1", "orphan": "1", "older": "1"}})
	f.insert(thing{Name: "same", Value: "2"}, thing{Name: "older", Value: "1"}, thing{Name: "leaving"})
	p, err := dryrun.Make(t.Context(), dryrun.Params{
		Txn: f.db.ReadTxn(), Kinds: f.kinds,
		Rows: []dryrun.Row{rowOf("thing", "same", "2", ""), rowOf("thing", "older", "2", ""), rowOf("thing", "new", "2", "")},
		State: func(_ context.Context, table, key string, inTable bool) string {
			return fmt.Sprint(table, " ", key, " ", inTable)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, op := range p.Operations {
		got = append(got, fmt.Sprintf("%s %s: %s, %s", op.Action, op.Key, op.Agent.InForce, op.Agent.State))
	}
	wanted := []string{
		"create new: , things new false", "change older: other, things older true", "create same: same, things same true",
		"delete leaving: same, things leaving true", "delete orphan: , things orphan false",
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
