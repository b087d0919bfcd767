package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// stages returns the types of step that an error has.
func stages(err error) (of []string) {
	var source *reconciler.SourceError
	var rejected *statedb.RowError
	var target *reconciler.TargetError
	var status *reconciler.StatusError
	if errors.As(err, &source) {
		of = append(of, "source "+source.Source+": "+source.Reason)
	}
	if errors.As(err, &status) {
		of = append(of, "status")
	} else if errors.As(err, &rejected) && errors.Is(err, statedb.ErrRejected) {
		of = append(of, "validation")
	}
	if errors.As(err, &target) {
		of = append(of, "target "+target.Operation)
	}
	return of
}

func TestErrorsOfTheStepsCanBeToldApart(t *testing.T) {
	refused := &reconciler.FieldError{Field: "want", Err: errBoom}
	prepared(t, func(w *world) {
		schema := rowSchema()
		schema.Name = "strict"
		schema.Validators = append(schema.Validators, func(_ statedb.ReadTxn, p statedb.Proposal[row]) error {
			if p.Object.Want < 0 {
				return refused
			}
			return nil
		})
		w.table = must(statedb.NewTable(w.db, schema))
	}, func(t *testing.T, w *world) {
		source := w.source("files")
		w.update(source.Initialized)
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "a.yaml is broken") })
		_, err := w.r.Explain(t.Context(), "missing")
		w.equal("of a source", []string{"source files: a.yaml is broken"}, stages(err))

		err = w.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := w.table.Insert(txn, row{ID: "a", Want: -1})
			return err
		}, w.table)
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field != refused {
			t.Errorf("%v does not wrap what the validator said", err)
		}
		w.equal("of validation", []string{"validation"}, stages(err))

		w.put(row{ID: "b"})
		w.target.will(failing("a", "b"))
		w.put(row{ID: "a"})
		w.delete("b")
		w.equal("of the target", []string{"target update"}, stages(w.status("a").Err()))
		w.equal("not-done", "boom", w.notDoneRows()[1].LastError)
		var failed *reconciler.FailedError
		if err := w.r.WaitTable(t.Context()); !errors.As(err, &failed) || len(failed.Rows) != 2 {
			t.Errorf("waiting: %v", err)
		} else {
			w.equal("of a delete", []string{"target delete"}, stages(failed.Rows[1].Err))
		}
		w.target.will(nil)
	})
}

func TestErrorOfAStatusWriteIsNotOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table := must(statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[*pointerRow]{
			Name: "pointers", Primary: statedb.NewIndex("id", func(r *pointerRow) string { return r.id }),
		})))
		r := must(reconciler.New(reconciler.Params[*pointerRow]{DB: db, Table: table, Target: noTarget{}}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		bad := &pointerRow{id: "bad"} // its status cannot be written
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, bad)
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if of := stages(r.WaitRow(ctx, bad)); !slices.Equal(of, []string{"status"}) {
			t.Errorf("the error is of %q", of)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
