package statedb_test

import (
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

func (f *fixture) register(name string) *statedb.Source {
	f.t.Helper()
	var source *statedb.Source
	f.update(func(txn *statedb.WriteTxn) (err error) {
		source, err = f.items.RegisterSource(txn, name)
		return err
	})
	return source
}

func (f *fixture) initialized() bool {
	initialized, _ := f.items.Initialized(f.db.ReadTxn())
	return initialized
}

func (f *fixture) waiting() <-chan struct{} {
	f.t.Helper()
	initialized, ready := f.items.Initialized(f.db.ReadTxn())
	if initialized {
		f.t.Fatal("the table is initialized")
	}
	return ready
}

func TestATableWithoutSourcesIsInitialized(t *testing.T) {
	f := newFixture(t)
	initialized, ready := f.items.Initialized(f.db.ReadTxn())
	if !initialized || !closed(ready) {
		t.Error("it waits for nobody, but is not initialized")
	}
}

func TestATableIsInitializedOnceAllItsSourcesAre(t *testing.T) {
	f := newFixture(t)
	b, a := f.register("b"), f.register("a")
	before := f.db.ReadTxn()
	ready := f.waiting()
	f.update(a.Initialized)
	if closed(ready) || f.initialized() {
		t.Fatal("initialized although one source is missing")
	}
	f.update(b.Initialized)
	if !closed(ready) || !f.initialized() {
		t.Fatal("not initialized although all sources are there")
	}
	if initialized, ready := f.items.Initialized(before); initialized || !closed(ready) {
		t.Error("an old snapshot must stay what it was, with a channel that is closed")
	}
}

func TestAnAbortDoesNotInitialize(t *testing.T) {
	f := newFixture(t)
	source := f.register("source")
	ready := f.waiting()
	txn := f.write()
	check(t, "initialized", source.Initialized(txn))
	if initialized, inside := f.items.Initialized(txn); !initialized || !closed(inside) {
		t.Error("the transaction does not see its own write")
	}
	if f.initialized() || closed(ready) {
		t.Error("an open transaction is seen outside")
	}
	txn.Abort()
	if f.initialized() || closed(ready) {
		t.Fatal("an aborted transaction has initialized the table")
	}
	f.update(source.Initialized)
	if !f.initialized() || !closed(ready) {
		t.Fatal("not initialized after the commit")
	}
}

func TestAFreshSnapshotIsInitializedOnceTheChannelCloses(t *testing.T) {
	for range 100 {
		f := newFixture(t)
		source := f.register("source")
		ready := f.waiting()
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-ready
			if !f.initialized() {
				t.Error("woken up, but the newest snapshot is not initialized")
			}
		}()
		f.update(source.Initialized)
		<-done
	}
}

// Whoever holds a channel of Initialized is woken, whatever one transaction
// does with the sources meanwhile.
func TestChannelsOfInitializedAreNeverLost(t *testing.T) {
	t.Run("one source done, another added", func(t *testing.T) {
		f := newFixture(t)
		first := f.register("first")
		ready := f.waiting()
		var second *statedb.Source
		f.update(func(txn *statedb.WriteTxn) (err error) {
			check(t, "first", first.Initialized(txn))
			second, err = f.items.RegisterSource(txn, "second")
			return err
		})
		if closed(ready) || f.initialized() {
			t.Fatal("initialized although the second source is missing")
		}
		f.update(second.Initialized)
		if !closed(ready) {
			t.Fatal("who waited for the first source waits for ever")
		}
	})
	t.Run("added and done in one transaction", func(t *testing.T) {
		f := newFixture(t)
		var inside <-chan struct{}
		f.update(func(txn *statedb.WriteTxn) error {
			source, err := f.items.RegisterSource(txn, "source")
			check(t, "register", err)
			_, inside = f.items.Initialized(txn)
			if closed(inside) {
				t.Error("closed before the source is done")
			}
			return source.Initialized(txn)
		})
		if !closed(inside) || !f.initialized() {
			t.Fatal("who waited inside the transaction waits for ever")
		}
	})
	t.Run("added and aborted", func(t *testing.T) {
		f := newFixture(t)
		txn := f.write()
		_, err := f.items.RegisterSource(txn, "source")
		check(t, "register", err)
		_, inside := f.items.Initialized(txn)
		txn.Abort()
		if !closed(inside) || !f.initialized() {
			t.Fatal("who waited for the aborted source waits for ever")
		}
	})
	t.Run("added and committed", func(t *testing.T) {
		f := newFixture(t)
		var inside <-chan struct{}
		var source *statedb.Source
		f.update(func(txn *statedb.WriteTxn) (err error) {
			source, err = f.items.RegisterSource(txn, "source")
			_, inside = f.items.Initialized(txn)
			return err
		})
		if closed(inside) {
			t.Fatal("closed before the source is done")
		}
		f.update(source.Initialized)
		if !closed(inside) {
			t.Fatal("who waited since the registration waits for ever")
		}
	})
	t.Run("a snapshot from before the table", func(t *testing.T) {
		db := newDB()
		old := db.ReadTxn()
		f := &fixture{t, db, newTable(t, db, itemSchema("items"))}
		source := f.register("source")
		initialized, ready := f.items.Initialized(old)
		if initialized || closed(ready) {
			t.Fatal("initialized before it exists")
		}
		f.update(source.Initialized)
		if !closed(ready) {
			t.Fatal("who waited with an old snapshot waits for ever")
		}
	})
}

func TestASourceOfALateTableMakesItWaitAgain(t *testing.T) {
	f := newFixture(t)
	f.update(f.register("first").Initialized)
	late := f.register("late")
	ready := f.waiting()
	f.update(late.Initialized)
	if !closed(ready) || !f.initialized() {
		t.Error("not initialized again")
	}
}

func TestIncompleteIsAnotherStateThanInitialized(t *testing.T) {
	f := newFixture(t)
	source, _ := f.register("files"), f.register("other")
	f.update(source.Initialized)
	f.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "a.yaml: line 3") })
	want := []statedb.SourceState{{Name: "files", Initialized: true, Incomplete: "a.yaml: line 3"}, {Name: "other"}}
	if diff := gocmp.Diff(want, f.items.Sources(f.db.ReadTxn())); diff != "" {
		t.Error(diff)
	}
	f.update(source.Complete)
	want[0].Incomplete = ""
	if diff := gocmp.Diff(want, f.items.Sources(f.db.ReadTxn())); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesOfASnapshotBelongToTheCaller(t *testing.T) {
	f := newFixture(t)
	f.register("source")
	f.items.Sources(f.db.ReadTxn())[0].Name = "changed"
	if got := f.items.Sources(f.db.ReadTxn())[0].Name; got != "source" {
		t.Errorf("a caller has renamed the source to %q", got)
	}
}

func TestSayingTheSameOfASourceWakesNobody(t *testing.T) {
	f := newFixture(t)
	source := f.register("source")
	f.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "why") })
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	watch := table.Watch(f.db.ReadTxn())
	f.update(func(txn *statedb.WriteTxn) error {
		check(t, "complete", source.Complete(txn))
		return source.Incomplete(txn, "why")
	})
	if closed(watch) {
		t.Error("woken by nothing")
	}
	f.update(source.Complete)
	if !closed(watch) {
		t.Error("not woken when the source became complete")
	}
}

func TestASourceNameIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	f.register("source")
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, err := f.items.RegisterSource(txn, "source")
		return err
	})
	wantError(t, err, statedb.ErrSourceExists)
	if err.Error() != `table items: source "source": source is registered already` {
		t.Errorf("error %q", err)
	}
}

func TestASourceWhoseRegistrationWasRolledBackIsRefused(t *testing.T) {
	f := newFixture(t)
	txn := f.write()
	source, err := f.items.RegisterSource(txn, "source")
	check(t, "register", err)
	txn.Abort()
	for _, say := range []func(*statedb.WriteTxn) error{source.Initialized, source.Complete} {
		wantError(t, f.try(say), statedb.ErrNoSource)
	}
	if got := f.items.Sources(f.db.ReadTxn()); !slices.Equal(got, nil) {
		t.Errorf("sources are %v", got)
	}
}

func TestAnEndedSourceMakesRoomForAnother(t *testing.T) {
	f := newFixture(t)
	first := f.register("source")
	check(t, "initialized", f.try(first.Initialized))
	check(t, "end", f.try(func(txn *statedb.WriteTxn) error { return first.End(txn, "it has crashed") }))
	want := []statedb.SourceState{{Name: "source", Initialized: true, Incomplete: "it has crashed"}}
	if diff := gocmp.Diff(want, f.items.Sources(f.db.ReadTxn())); diff != "" {
		t.Errorf("sources after the end (-want +got):\n%s", diff)
	}
	for _, say := range []func(*statedb.WriteTxn) error{first.Initialized, first.Complete} {
		wantError(t, f.try(say), statedb.ErrNoSource)
	}
	second := f.register("source")
	wantError(t, f.try(first.Complete), statedb.ErrNoSource) // it is another one's now
	ready := f.waiting()
	check(t, "initialized", f.try(second.Initialized))
	if !f.initialized() || !closed(ready) {
		t.Error("the second source has not initialized the table")
	}
	if diff := gocmp.Diff([]statedb.SourceState{{Name: "source", Initialized: true}}, f.items.Sources(f.db.ReadTxn())); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestTheWatchOfATableClosesWithRowsAndSources(t *testing.T) {
	f := newFixture(t)
	watch := f.items.Watch(f.db.ReadTxn())
	f.insert(item{ID: "a"})
	if !closed(watch) {
		t.Error("a row did not close it")
	}
	watch = f.items.Watch(f.db.ReadTxn())
	f.update(func(*statedb.WriteTxn) error { return nil })
	if closed(watch) {
		t.Error("an empty transaction closed it")
	}
	f.register("source")
	if !closed(watch) {
		t.Error("a source did not close it")
	}
}

func TestADatabaseOwnsItsTables(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	if !f.db.Owns(f.items) || f.db.Owns(other.items) {
		t.Error("a database owns its own tables, and no others")
	}
}

func TestAKeyIsParsedForTheIndexOfAName(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g", Number: -3})
	q, err := f.items.ParseKey("place", "g,-3")
	check(t, "parse", err)
	wantIDs(t, "the place", ids(f.items.List(f.db.ReadTxn(), q)), "a")
	_, err = f.items.ParseKey("number", "three")
	wantError(t, err, statedb.ErrBadKey)
}
