package file

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestRunAppliesANewFilterAtOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range mixed {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := running(t, dir, nil)
	r.become(netA+" eth0", netB+" eth1", netC+" eth0", netD+" eth2")
	r.must(SetFilter(r.source, "route", on("eth0")))
	r.become(netA+" eth0", netC+" eth0")
	r.must(SetFilter[route](r.source, "route", nil))
	r.become(netA+" eth0", netB+" eth1", netC+" eth0", netD+" eth2")

	// Of many that are set at the same time one stays in force.
	var setting sync.WaitGroup
	for i := range 8 {
		setting.Go(func() {
			for range 10 {
				r.must(SetFilter(r.source, "route", on(fmt.Sprintf("eth%d", i%3))))
			}
		})
	}
	r.write("e.yaml", routeTo("10.5.0.0/16", "eth0"))
	setting.Wait()
	r.must(SetFilter(r.source, "route", on("eth1", "eth2")))
	r.become(netB+" eth1", netD+" eth2")
}

// deletes is a target that counts the rows that are there.
type deletes struct {
	reconciler.NoInit
	there atomic.Int64
}

func (d *deletes) Update(context.Context, statedb.ReadTxn, route) (reconciler.Result, error) {
	d.there.Add(1)
	return reconciler.Result{Changed: true}, nil
}

func (d *deletes) Delete(context.Context, statedb.ReadTxn, route) error { d.there.Add(-1); return nil }

func (*deletes) Prune(context.Context, statedb.ReadTxn, iter.Seq2[route, statedb.Revision]) (int, error) {
	return 0, nil
}

// A mistaken filter does not empty the target: its deletes are limited like all others.
func TestTheRowsThatANewFilterDropsAreUnderTheLimitOfDeletes(t *testing.T) {
	files, _ := manyFiles(100)
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		target := &deletes{}
		r, err := reconciler.New(reconciler.Params[route]{DB: h.db, Table: h.routes, Target: target})
		h.must(err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		h.must(r.WaitTable(ctx))
		if n := target.there.Load(); n != 100 {
			t.Fatalf("%d routes are there", n)
		}
		h.setFilter(func(r route) bool { return strings.HasPrefix(r.Destination.String(), "10.100.101.") })
		h.wantRoutes("10.100.101.0/24 eth0")
		time.Sleep(time.Minute)
		plan, err := r.Plan(ctx)
		h.must(err)
		if n := target.there.Load(); n != 100 || plan.Deletes != 99 {
			t.Errorf("%d routes are there, the deletes of %d are held", n, plan.Deletes)
		}
		// A filter that keeps them again withdraws the deletes.
		h.setFilter(nil)
		h.must(r.WaitTable(ctx))
		if plan, err = r.Plan(ctx); err != nil || plan.Deletes != 0 {
			t.Errorf("the plan is %+v, error %v", plan, err)
		}
		cancel()
		h.must(<-ended)
		synctest.Wait()
	})
}

// The row W7: 15,000 in, 100 kept.
func TestDroppedDocumentsTakeNoMemory(t *testing.T) {
	const files, each, keptEach = 10, 1500, 10
	write := func(each int) (dir string) {
		dir = t.TempDir()
		for i := range files {
			var b strings.Builder
			for j := range each {
				device := "eth1"
				if j >= keptEach {
					device = "eth2"
				}
				fmt.Fprintf(&b, "---\n%s", routeTo(fmt.Sprintf("10.%d.%d.%d/32", i, j>>8, j&0xff), device))
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	all, few := write(each), write(keptEach)
	// measure returns what a source keeps, its table included.
	measure := func(dir string, filter func(route) bool, rows int) int64 {
		f := newFixture(t)
		f.configure = func(r *KindConfig[route], _ *KindConfig[*set]) { r.Filter = filter }
		c := f.config(t, dir)
		c.Logger = nil
		before := heap()
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(deadline); f.routes.Len(f.db.ReadTxn()) != rows; {
			if _, err := s.reload(t.Context(), unwatched{}); err != nil || time.Now().After(late) {
				t.Fatalf("%d rows, want %d; error %v", f.routes.Len(f.db.ReadTxn()), rows, err)
			}
		}
		kept := heap() - before
		runtime.KeepAlive(s)
		return kept
	}
	measure(few, nil, files*keptEach) // what is kept once for all is not counted
	filtered, asMany, everything := measure(all, on("eth1"), files*keptEach), measure(few, nil, files*keptEach), measure(all, nil, files*each)
	t.Logf("15,000 documents, 100 kept: %d bytes; 100 documents: %d bytes; 15,000 kept: %d bytes", filtered, asMany, everything)
	if filtered > asMany+asMany/4 {
		t.Errorf("100 of 15,000 documents take %d bytes, but 100 of 100 take %d", filtered, asMany)
	}
	if everything < 20*asMany {
		t.Errorf("15,000 documents take %d bytes and 100 take %d: the measurement does not see rows", everything, asMany)
	}
}
