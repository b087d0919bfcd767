package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// pointerRow is a row whose WithStatus is wrong for the id "bad": it changes the
// row that is stored.
type pointerRow struct {
	id     string
	status reconciler.Status
}

func (r *pointerRow) GetStatus() reconciler.Status { return r.status }

func (r *pointerRow) WithStatus(s reconciler.Status) *pointerRow {
	if r.id == "bad" {
		return r
	}
	return &pointerRow{id: r.id, status: s}
}

type noTarget struct{}

func (noTarget) Init(context.Context) error { return nil }

func (noTarget) Update(context.Context, statedb.ReadTxn, *pointerRow) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}
func (noTarget) Delete(context.Context, statedb.ReadTxn, *pointerRow) error { return nil }

func (noTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*pointerRow, statedb.Revision]) (int, error) {
	return 0, nil
}

// statuses returns one status of each kind, as a reconciler makes them.
func statuses(t *testing.T) (pending, done, failed reconciler.Status) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("failed"))
		w.put(row{ID: "done"}, row{ID: "failed"})
		done, failed = w.status("done"), w.status("failed")
	})
	return reconciler.Status{}, done, failed
}

func TestStatusIsSmallAndComparable(t *testing.T) {
	if size := unsafe.Sizeof(reconciler.Status{}); size > 32 {
		t.Errorf("a status has %d bytes, want at most 32", size)
	}
	pending, done, failed := statuses(t)
	if pending != (reconciler.Status{}) || done == failed || done == pending {
		t.Error("statuses do not compare as they should")
	}
}

func TestStatusSurvivesJSON(t *testing.T) {
	pending, done, failed := statuses(t)
	for want, s := range map[string]reconciler.Status{
		`{"kind":"pending"}`:                                             pending,
		`{"kind":"done","since":"2000-01-01T00:00:00Z"}`:                 done,
		`{"kind":"error","since":"2000-01-01T00:00:00Z","error":"boom"}`: failed,
	} {
		text, err := json.Marshal(s)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		var back reconciler.Status
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if back.Kind() != s.Kind() || !back.Since().Equal(s.Since()) || back.String() != s.String() {
			t.Errorf("%v came back as %v", s, back)
		}
	}
}

func TestStatusOfUnknownKindIsRefused(t *testing.T) {
	for _, text := range []string{`{"kind":"refreshing"}`, `{"kind":""}`, `{"kind":3}`, `{"kind":"Done"}`, `{"kind":"done","since":"now"}`} {
		s := otherStatus(1)
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s was read as %v", text, s)
		}
	}
	if _, err := reconciler.StatusKind(9).MarshalText(); err == nil {
		t.Error("kind 9 was written")
	}
	if got := reconciler.StatusKind(9).String(); got != "StatusKind(9)" {
		t.Errorf("kind 9 is %q", got)
	}
}

func TestStatusAsText(t *testing.T) {
	pending, done, failed := statuses(t)
	for want, s := range map[string]reconciler.Status{"pending": pending, "done": done, "error: boom": failed} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
	if !pending.Since().IsZero() || pending.Err() != nil || done.Err() != nil || !errors.Is(failed.Err(), errBoom) {
		t.Error("since and error are not what they should be")
	}
}

func TestSinceIsTheTimeOfTheFirstOfLikeStatuses(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.target.will(failing("bad"))
		w.put(row{ID: "good"}, row{ID: "bad"})
		w.pass(time.Minute)
		revision := w.table.Revision(w.db.ReadTxn())
		w.fullPass()
		w.pass(time.Hour)
		for _, id := range []string{"good", "bad"} {
			if since := w.status(id).Since(); !since.Equal(began) {
				t.Errorf("%s since %v, want %v", id, since, began)
			}
		}
		if got := w.table.Revision(w.db.ReadTxn()); got != revision {
			t.Errorf("%d writes of statuses that say the same", got-revision)
		}
		w.target.will(nil)
		w.pass(2 * time.Minute)
		if since := w.status("bad").Since(); !since.After(began.Add(time.Minute)) {
			t.Errorf("done since %v", since)
		}
	})
}

func TestStatusIndexHoldsRowsInErrorOnly(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("bad"))
		size := func() int { return must(w.rows().LenOf(w.db.ReadTxn(), reconciler.StatusIndexName)) }
		w.put(row{ID: "good"}, row{ID: "bad"})
		query := reconciler.NewStatusIndex[row]().Query(reconciler.Error)
		for r := range w.rows().List(w.db.ReadTxn(), query) {
			if r.ID != "bad" {
				t.Errorf("%s is listed as in error", r.ID)
			}
		}
		w.equal("index", 1, size())
		w.target.will(slow("bad"))
		w.put(row{ID: "bad", Want: 2})
		w.equal("index", 0, size())
		w.pass(time.Minute)
		w.equal("index", 0, size())
	})
}

func TestErrorsNameTheirCause(t *testing.T) {
	err := &reconciler.FieldError{Field: "mtu", Err: errBoom}
	if err.Error() != `field "mtu": boom` || !errors.Is(err, errBoom) {
		t.Errorf("%v", err)
	}
	status := &reconciler.StatusError{Err: errBoom}
	if status.Error() != "write status: boom" || !errors.Is(status, errBoom) {
		t.Errorf("%v", status)
	}
	if reconciler.Terminal(nil) != nil || reconciler.RetryAfter(time.Second, nil) != nil {
		t.Error("no error became an error")
	}
	for _, wrapped := range []error{reconciler.Terminal(errBoom), reconciler.RetryAfter(time.Second, errBoom)} {
		if wrapped.Error() != "boom" || !errors.Is(wrapped, errBoom) {
			t.Errorf("%v", wrapped)
		}
	}
	panicked := &reconciler.PanicError{Value: "no error"}
	if !strings.Contains(panicked.Error(), "no error") || errors.Unwrap(panicked) != nil {
		t.Errorf("%v", panicked)
	}
}

func TestPointerRowsAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table := must(statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[*pointerRow]{
			Name: "pointers", Primary: statedb.NewIndex("id", func(r *pointerRow) string { return r.id }),
		})))
		r := must(reconciler.New(reconciler.Params[*pointerRow]{DB: db, Table: table, Target: noTarget{}}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		mine := &pointerRow{id: "a"}
		err := db.Update(ctx, func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, mine)
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour) // with full passes
		synctest.Wait()
		if s := r.Summary(db.ReadTxn()); s.Done != 1 || r.Stats().Incremental.Count != 1 || mine.status.Kind() != reconciler.Pending {
			t.Errorf("%+v after %d operations; the row that was given is %v", s, r.Stats().Incremental.Count, mine.status)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Contradictory fields are refused, in JSON and in YAML, which have the same form.
func TestInvalidStatusesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"done","error":"x"}`:                     `status has kind done and error "x", which only kind error has`,
		`{"error":"x"}`:                                   `status has kind pending and error "x", which only kind error has`,
		`{"kind":"done","since":"3000-01-01T00:00:00Z"}`:  "status is since 3000-01-01 00:00:00 +0000 UTC, expected a time from 1678 to 2262",
		`{"kind":"error","since":"1600-01-01T00:00:00Z"}`: "status is since 1600-01-01 00:00:00 +0000 UTC, expected a time from 1678 to 2262",
		`{"kind":"gone"}`:                                 `status kind "gone" is unknown, expected pending, done or error`,
	} {
		before := reconciler.Status{}
		for form, err := range map[string]error{
			"JSON": json.Unmarshal([]byte(text), &before), "YAML": yaml.Unmarshal([]byte(text), &before),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || before != (reconciler.Status{}) {
				t.Errorf("%s in %s: %v, %v", text, form, before, err)
			}
		}
	}
}

func TestStatusOfKindErrorHasAnError(t *testing.T) {
	var s reconciler.Status
	if err := json.Unmarshal([]byte(`{"kind":"error"}`), &s); err != nil {
		t.Fatal(err)
	}
	if s.Err() == nil || s.String() != "error: unknown error" {
		t.Errorf("%v", s)
	}
}
