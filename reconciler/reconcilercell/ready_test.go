package reconcilercell_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/statedb"
)

func TestHiveIsReadyOnceTheFirstFullPassHasTriedAllRows(t *testing.T) {
	var readiness *hive.Readiness
	var source *statedb.Source
	var r running
	h := newHive(t, inspect.Cell(), reconcilercell.Cell(),
		things(cell.Invoke(func(db *statedb.DB, table *statedb.RWTable[thing]) error {
			r.db, r.table = db, table
			return db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
				source, err = table.RegisterSource(txn, "late")
				return err
			}, table)
		})),
		cell.Invoke(func(is *hive.Readiness) { readiness = is }),
	)
	r.begin(t, h)
	r.insert(t, "good", "bad")
	ready, waits := readiness.Ready()
	if got := strings.Join(waits, "\n"); ready || got != "reconciler: things: the first listing of late" {
		t.Errorf("before the first listing: ready is %v, waits for %q", ready, got)
	}
	if err := r.db.Update(t.Context(), source.Initialized, r.table); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(patience)
	for !ready { // although a row is in error
		select {
		case <-look.C:
			ready, waits = readiness.Ready()
		case <-deadline:
			t.Fatalf("not ready, waits for %q", waits)
		}
	}
}

// gated lets nothing through before it is open, and then fails for some.
type gated struct {
	noop
	open  chan struct{}
	tries map[string]int
}

func (g *gated) Update(ctx context.Context, _ statedb.ReadTxn, r thing) (reconciler.Result, error) {
	select {
	case <-g.open:
	case <-ctx.Done():
		return reconciler.Result{}, ctx.Err()
	}
	g.tries[r.ID]++
	switch r.ID {
	case "r0500", "young":
		return reconciler.Result{}, errors.New("no space")
	case "r0700", "r0701":
		return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errors.New("come back"))
	case "r0800":
		return reconciler.Result{}, reconciler.Terminal(errors.New("never"))
	}
	return reconciler.Result{}, nil
}

// readying is a hive that was started with a thousand rows and is not ready yet.
type readying struct {
	running
	readiness *hive.Readiness
	target    *gated
}

func startReadying(t *testing.T, args ...string) *readying {
	t.Helper()
	r := &readying{target: &gated{open: make(chan struct{}), tries: map[string]int{}}}
	h := newHive(t, reconcilercell.Cell(),
		things(
			cell.Decorate(func(reconciler.Target[thing]) reconciler.Target[thing] { return r.target }),
			cell.Invoke(func(db *statedb.DB, table *statedb.RWTable[thing]) {
				r.db, r.table = db, table
				ids := make([]string, 1000)
				for i := range ids {
					ids[i] = fmt.Sprintf("r%04d", i)
				}
				r.insert(t, ids...)
			})),
		cell.Invoke(func(is *hive.Readiness) { r.readiness = is }),
	)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := errors.Join(h.RegisterFlags(flags), flags.Parse(args), h.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// waits are the rows that block, without the errors.
func (r *readying) waits(t *testing.T) (rows []string) {
	t.Helper()
	synctest.Wait()
	ready, waits := r.readiness.Ready()
	if ready != (len(waits) == 0) {
		t.Errorf("ready is %v, waits for %q", ready, waits)
	}
	for _, w := range waits {
		row, _, _ := strings.Cut(strings.TrimPrefix(w, "reconciler: things: "), ", ")
		rows = append(rows, row)
	}
	return rows
}

func (r *readying) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.waits(t)); diff != "" {
		t.Errorf("what is waited for (-want +got):\n%s", diff)
	}
}

func TestReadinessNamesTheRowsOfTheStartThatWereNotTriedOftenEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReadying(t, "--ready-tries=4")
		pending := []string{"the end of its first full pass"}
		for i := range 10 {
			pending = append(pending, fmt.Sprintf("row r%04d: it has not been tried yet", i))
		}
		r.expect(t, append(pending, "more rows")...)

		// A row that comes later is no matter of the start, whatever becomes of it.
		r.insert(t, "young")
		close(r.target.open)
		again := ": it failed 1 of 4 tries"
		r.expect(t, "row r0500"+again, "row r0700"+again, "row r0701"+again)
		if got := len(r.target.tries); got != 1001 {
			t.Errorf("%d rows were tried", got)
		}

		// What is not wanted any longer is not waited for, nor what has changed.
		err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := r.table.Delete(txn, thing{ID: "r0700"})
			return err
		}, r.table)
		if err != nil {
			t.Fatal(err)
		}
		r.expect(t, "row r0500"+again, "row r0701"+again)
		time.Sleep(10 * time.Second) // the failing one has used up its tries
		r.expect(t, "row r0701"+again)
		if got := r.target.tries["r0500"]; got < 4 {
			t.Errorf("it was tried %d times", got)
		}
		r.rewrite(t, "r0701")
		r.expect(t)

		// Once ready it stays so.
		r.insert(t, "r0500-too")
		r.rewrite(t, "r0500")
		r.expect(t)
	})
}

func (r *readying) rewrite(t *testing.T, id string) {
	t.Helper()
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := r.table.Insert(txn, thing{ID: id, Note: "changed"})
		return err
	}, r.table)
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadinessDoesNotWaitForASecondTryUnlessToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReadying(t, "--ready-tries=1")
		close(r.target.open)
		r.expect(t)
	})
}

func TestReadinessDoesNotWaitForARowThatNothingWillTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(chan string, 100)
		onThings := func(things *statedb.Table[thing]) reconcilercell.Relations[part] {
			return reconcilercell.Relations[part]{DependsOn: []reconciler.Dependency[part]{reconciler.DependsOn(things, thing.GetStatus, thingsOf)}}
		}
		var readiness *hive.Readiness
		h := newHive(t, reconcilercell.Cell(), related(log, noRelations, onThings),
			cell.Invoke(func(db *statedb.DB, things *statedb.RWTable[thing], parts *statedb.RWTable[part], is *hive.Readiness) error {
				readiness = is
				return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					_, _, good := things.Insert(txn, thing{ID: "good"})
					_, _, bad := things.Insert(txn, thing{ID: "bad"})
					_, _, ofGood := parts.Insert(txn, part{ID: "of good", Thing: "good"})
					_, _, ofBad := parts.Insert(txn, part{ID: "of bad", Thing: "bad"})
					return errors.Join(good, bad, ofGood, ofBad)
				}, things, parts)
			}))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ready, waits := readiness.Ready(); !ready || len(log) != 3 {
			t.Errorf("ready is %v, waits for %q; %d operations", ready, waits, len(log))
		}
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
