package sysctl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/statedb"
)

// watched is a running watcher of parameters in a directory.
type watched struct {
	t       *testing.T
	root    string
	db      *statedb.DB
	sysctls *statedb.RWTable[Sysctl]
	seen    *statedb.RWTable[Seen]
}

func (w *watched) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) update(fn func(txn *statedb.WriteTxn) error) {
	w.t.Helper()
	w.check(w.db.Update(w.t.Context(), fn, w.sysctls))
	synctest.Wait()
}

func (w *watched) declare(rows ...Sysctl) {
	w.t.Helper()
	w.update(func(txn *statedb.WriteTxn) (err error) {
		for _, row := range rows {
			_, _, insertErr := w.sysctls.Insert(txn, row)
			err = errors.Join(err, insertErr)
		}
		return err
	})
}

func (w *watched) set(name, value string) {
	w.t.Helper()
	w.check(os.WriteFile(filepath.Join(w.root, procsys.PathOf(name)), []byte(value+"\n"), 0o600))
}

func (w *watched) want(values map[string]string) {
	w.t.Helper()
	is := map[string]string{}
	for s := range w.seen.All(w.db.ReadTxn()) {
		if is[s.Name] = s.Value; s.Missing {
			is[s.Name] = "missing"
		}
	}
	if diff := cmp.Diff(values, is); diff != "" {
		w.t.Errorf("observed sysctls (-want +is):\n%s", diff)
	}
}

// watch runs test in virtual time with a watcher of parameters that have these values.
func watch(t *testing.T, values map[string]string, test func(t *testing.T, w *watched)) {
	t.Helper()
	root := tree(t, values)
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, root: root}
		target := newTarget(t, Config{Root: root, Allow: func(name string) error {
			if name == "kernel.secret" {
				return errors.New("not this one")
			}
			return nil
		}})
		w.db, w.seen = nstest.Mirror(t, SeenSchema(), func(db *statedb.DB, seen *statedb.RWTable[Seen]) (*Watcher, error) {
			var err error
			w.sysctls, err = statedb.NewTable(db, Schema())
			w.check(err)
			watcher, err := target.NewWatcher(db, statedb.ReadOnly(w.sysctls), seen)
			if initialized, _ := seen.Initialized(db.ReadTxn()); initialized {
				t.Error("the table is complete before anything was read")
			}
			return watcher, err
		})
		synctest.Wait()
		if initialized, _ := w.seen.Initialized(w.db.ReadTxn()); !initialized {
			t.Error("the table is not complete")
		}
		test(t, w)
	})
}

func TestSysctlsAreReadWhenTheirRowsChangeAndAfterAWhile(t *testing.T) {
	watch(t, map[string]string{"kernel.a": "1", "kernel.b": "1\t2", "kernel.c": "3", "kernel.secret": "4"}, func(_ *testing.T, w *watched) {
		w.want(map[string]string{})
		w.declare(Sysctl{Name: "kernel.a", Value: "1"}, Sysctl{Name: "kernel/b", Value: "1 2"}, Sysctl{Name: "kernel.secret", Value: "4"}, Sysctl{Name: "kernel.none", Value: "4"})
		w.want(map[string]string{"kernel.a": "1", "kernel.b": "1 2", "kernel.none": "missing"})
		w.set("kernel.a", "")
		w.set("kernel.b", "5")
		w.declare(Sysctl{Name: "kernel.b", Value: "6"})
		w.want(map[string]string{"kernel.a": "1", "kernel.b": "5", "kernel.none": "missing"})
		time.Sleep(readInterval)
		synctest.Wait()
		w.want(map[string]string{"kernel.a": "", "kernel.b": "5", "kernel.none": "missing"})
		w.check(os.Remove(filepath.Join(w.root, procsys.PathOf("kernel.b"))))
		w.set("kernel.none", "7")
		time.Sleep(readInterval)
		synctest.Wait()
		w.want(map[string]string{"kernel.a": "", "kernel.b": "missing", "kernel.none": "7"})
		w.update(func(txn *statedb.WriteTxn) error {
			_, _, err := w.sysctls.Delete(txn, Sysctl{Name: "kernel.a"})
			return err
		})
		w.want(map[string]string{"kernel.b": "missing", "kernel.none": "7"})
	})
}

func TestWhatKeptTheWatcherWaitingIsOverSoon(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: readInterval, time.Second: 20 * time.Second, 35 * time.Second: maxReadInterval} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %v: %v, expected %v", took, got, want)
		}
	}
}

// reports is a health whose changes can be waited for.
type reports chan error

func (r reports) OK(string)                    { r <- nil }
func (r reports) Degraded(_ string, err error) { r <- err }
func (reports) Stopped(string)                 {}

// A busy directory delays only its own parameters, and health says so.
func TestAWatcherGoesOnWhileADirectoryIsBusy(t *testing.T) {
	root := tree(t, map[string]string{"net.busy.a": "1", "net.busy.b": "1", "net.c": "1"})
	end := nstest.SilentDisk(t, filepath.Join(root, "net", "busy"))
	target, db := newTarget(t, Config{Root: root}), statedb.New()
	sysctls, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	declare := func(value string, names ...string) {
		t.Helper()
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
			for _, name := range names {
				_, _, insertErr := sysctls.Insert(txn, Sysctl{Name: name, Value: value})
				err = errors.Join(err, insertErr)
			}
			return err
		}, sysctls)
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(rows ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, rows...)
	}
	watcher, err := target.NewWatcher(db, statedb.ReadOnly(sysctls), seen)
	if err != nil {
		t.Fatal(err)
	}
	declare("1", "net.busy.a", "net.busy.b", "net.c")
	health := make(reports, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- watcher.Run(ctx, health) }()
	want(Seen{Name: "net.c", Value: "1"})
	if err := <-health; !errors.Is(err, procsys.ErrBusy) || !strings.Contains(err.Error(), "net.busy.a") {
		t.Errorf("health: %v", err)
	}
	if err := target.files.Write("net.c", "2"); err != nil {
		t.Fatal(err)
	}
	declare("3", "net.c")
	want(Seen{Name: "net.c", Value: "2"})
	if err := <-health; err == nil {
		t.Error("health is OK while a parameter cannot be read")
	}
	end()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := target.files.Read("net.busy.a"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	declare("3", "net.busy.a", "net.busy.b")
	want(Seen{Name: "net.busy.a", Value: "1"}, Seen{Name: "net.busy.b", Value: "1"}, Seen{Name: "net.c", Value: "2"})
	for err := range health { // it ends when all are read
		if err == nil {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The other ones are given back.
func TestABusyDirectoryIsNoErrorOfAllThatIsOurs(t *testing.T) {
	root := tree(t, map[string]string{"net.busy.a": "1", "net.c": "1"})
	target := newTarget(t, Config{Root: root})
	mustUpdate(t, target, Sysctl{Name: "net.busy.a", Value: "2"}, true)
	mustUpdate(t, target, Sysctl{Name: "net.c", Value: "2"}, true)
	end := nstest.SilentDisk(t, filepath.Join(root, "net", "busy"))
	if err := target.Init(t.Context()); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[row.Name] = row.Value
	}
	if diff := cmp.Diff(map[string]string{"net.busy.a": "", "net.c": "2"}, got); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
	end()
}
