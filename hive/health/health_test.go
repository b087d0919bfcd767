package health_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*testing.T
	db       *statedb.DB
	registry *health.Registry
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db := statedb.New()
	r, err := health.NewRegistry(db, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return fixture{t, db, r}
}

func (f fixture) scope(id string) health.Health {
	f.Helper()
	h, err := f.registry.Scope(id)
	if err != nil {
		f.Fatal(err)
	}
	return h
}

func (f fixture) below(h health.Health, name string) health.Health {
	f.Helper()
	n, err := h.NewScope(name)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

func (f fixture) get(id string) (health.Status, statedb.Revision, bool) {
	return f.registry.Table().Get(f.db.ReadTxn(), health.ByID().Query(id))
}

func (f fixture) ids() []string {
	var ids []string
	for s := range f.registry.Table().All(f.db.ReadTxn()) {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestReportIsARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		h := f.scope("agent.route")
		if _, _, ok := f.get("agent.route"); ok {
			t.Error("there is a row before the first report")
		}
		began := time.Now()
		h.OK("fine")
		got, _, _ := f.get("agent.route")
		want := health.Status{ID: "agent.route", Level: health.OK, Since: began, Updated: began, Message: "fine"}
		if got != want {
			t.Error(cmp.Diff(want, got))
		}

		time.Sleep(time.Second)
		h.Degraded("2 of 3 failed", errors.New("no such device"))
		degraded := time.Now()
		time.Sleep(time.Second)
		h.Degraded("3 of 3 failed", errors.New("no such device"))
		got, _, _ = f.get("agent.route")
		want = health.Status{
			ID: "agent.route", Level: health.Degraded, Since: degraded, Updated: degraded.Add(time.Second),
			Message: "3 of 3 failed", Error: "no such device",
			Recent: &[]health.Change{{Level: health.OK, Since: began, Message: "fine"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}

		h.Stopped("bye")
		if got, _, _ := f.get("agent.route"); got.Level != health.Stopped || got.Error != "" || got.Since != time.Now() {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReportThatChangesNothingWritesNothing(t *testing.T) {
	f := newFixture(t)
	h := f.scope("m")
	for _, report := range []func(){
		func() { h.OK("fine") },
		func() { h.Degraded("bad", errors.New("why")) },
		func() { h.Degraded("bad", nil) },
		func() { h.Stopped("done") },
	} {
		report()
		before := f.registry.Table().Revision(f.db.ReadTxn())
		report()
		if after := f.registry.Table().Revision(f.db.ReadTxn()); after != before {
			t.Errorf("revision went from %d to %d", before, after)
		}
	}
}

func TestScopeOfAnOpenNameIsRefused(t *testing.T) {
	f := newFixture(t)
	m := f.scope("m")
	a := f.below(m, "a")
	if _, err := m.NewScope("a"); !errors.Is(err, health.ErrDuplicate) {
		t.Errorf("same scope: %v", err)
	}
	if _, err := f.registry.Scope("m.a"); !errors.Is(err, health.ErrDuplicate) {
		t.Errorf("module of the same id: %v", err)
	}
	if _, err := m.NewScope(""); err == nil {
		t.Error("a scope without a name was opened")
	}
	a.Close()
	f.below(m, "a")
}

func TestCloseRemovesTheRowsBelowAndEndsReports(t *testing.T) {
	f := newFixture(t)
	m := f.scope("m")
	a := f.below(m, "a")
	b := f.below(a, "b")
	other := f.below(m, "ab")
	for _, h := range []health.Health{m, a, b, other} {
		h.OK("")
	}
	a.Close()
	a.Close()
	b.OK("still here")
	if diff := cmp.Diff([]string{"m", "m.ab"}, f.ids()); diff != "" {
		t.Error(diff)
	}
	if _, err := a.NewScope("x"); !errors.Is(err, health.ErrClosed) {
		t.Errorf("scope below a closed one: %v", err)
	}
	again := f.below(m, "a")
	a.Close()
	again.OK("")
	if _, _, ok := f.get("m.a"); !ok {
		t.Error("closing the old scope again has closed the new one")
	}
}

func TestReportsFromManyGoroutines(t *testing.T) {
	f := newFixture(t)
	m := f.scope("m")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				m.OK(string(rune('a' + i)))
				m.Degraded("bad", nil)
			}
		})
	}
	wg.Wait()
	m.OK("last")
	if got, _, _ := f.get("m"); got.Message != "last" {
		t.Errorf("got %+v", got)
	}
}

func TestLevelSurvivesJSONAndRefusesWhatIsNotOne(t *testing.T) {
	for _, l := range []health.Level{health.OK, health.Degraded, health.Stopped} {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var got health.Level
		if err := json.Unmarshal(text, &got); err != nil || got != l {
			t.Errorf("%v became %v, %v", l, got, err)
		}
	}
	var l health.Level
	if err := json.Unmarshal([]byte(`"Fine"`), &l); err == nil {
		t.Error("an unknown level was accepted")
	}
	if _, err := json.Marshal(health.Level(0)); err == nil {
		t.Error("the zero level was written")
	}
}
