package mirror_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
)

type marked struct {
	Name   string
	Marked bool
}

// reports are what health was told.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
}

func (r *reports) OK(string)                    { r.add("ok") }
func (r *reports) Degraded(_ string, err error) { r.add(err.Error()) }
func (r *reports) Stopped(string)               {}
func (r *reports) take() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

func TestWhatCarriesOurMarkWithoutARecordIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, statedb.Schema[marked]{
			Name: "seen", Primary: statedb.NewIndex("name", func(m marked) string { return m.Name }),
		})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		records := map[string]bool{"c": true}
		is := func(m marked) bool {
			mu.Lock()
			defer mu.Unlock()
			return m.Marked && !records[m.Name]
		}
		record := func(name string, known bool) {
			mu.Lock()
			defer mu.Unlock()
			records[name] = known
		}
		health := &reports{}
		u := mirror.Unrecorded[marked]{
			DB: db, Table: statedb.ReadOnly(table), What: "things", Name: func(m marked) string { return m.Name }, Is: is, Remedy: "remove them",
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- u.Run(ctx, health) }()
		write := func(rows ...marked) {
			t.Helper()
			if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				for _, row := range rows {
					if _, _, err := table.Insert(txn, row); err != nil {
						return err
					}
				}
				return nil
			}, table); err != nil {
				t.Fatal(err)
			}
		}
		remove := func(name string) {
			t.Helper()
			if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := table.Delete(txn, marked{Name: name})
				return err
			}, table); err != nil {
				t.Fatal(err)
			}
		}
		want := func(want ...string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := health.take(); !slices.Equal(got, want) {
				t.Errorf("health was told %q, expected %q", got, want)
			}
		}
		want("ok")
		write(marked{"a", true}, marked{"b", false}, marked{"c", true})
		want("things that carry our mark without a record: a; remove them")
		write(marked{"b", true})
		want("things that carry our mark without a record: a, b; remove them")
		record("a", true) // it was adopted
		want("things that carry our mark without a record: b; remove them")
		remove("b")
		want("ok")

		record("c", false) // as on its way out
		write(marked{"c", true})
		time.Sleep(time.Second / 2)
		remove("c")
		want()

		for name := range strings.SplitSeq("d e f g h i j k l m n o", " ") {
			write(marked{name, true})
		}
		want("things that carry our mark without a record: d, e, f, g, h, i, j, k, l, m and 2 more; remove them")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
