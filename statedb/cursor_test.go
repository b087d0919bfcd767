package statedb_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// fold is a table as its feed tells it.
type fold struct {
	rows    map[string]modelRow
	stale   map[string]bool // rows not listed yet since the last reset
	resets  int
	changes int
}

func newFold() *fold { return &fold{rows: map[string]modelRow{}} }

func (f *fold) apply(change statedb.Change[item]) {
	f.changes++
	switch change.Kind {
	case statedb.Upsert:
		f.rows[change.Object.ID] = modelRow{Item: change.Object, Revision: change.Revision}
		delete(f.stale, change.Object.ID)
	case statedb.Delete:
		delete(f.rows, change.Object.ID)
	case statedb.Reset:
		f.resets++
		f.stale = map[string]bool{}
		for id := range f.rows {
			f.stale[id] = true
		}
	}
}

// settle drops what was not listed after a reset. The feed has to be drained.
func (f *fold) settle() {
	for id := range f.stale {
		delete(f.rows, id)
	}
	f.stale = nil
}

// drain applies all that the cursor has for the snapshot.
func (f *fold) drain(cursor *statedb.Cursor[item], txn statedb.ReadTxn) {
	for change := range cursor.Next(txn) {
		f.apply(change)
	}
	f.settle()
}

// differs compares with the table in the snapshot.
func (f *fold) differs(table *statedb.Table[item], txn statedb.ReadTxn) error {
	rows := map[string]modelRow{}
	for row, revision := range table.All(txn) {
		rows[row.ID] = modelRow{Item: row, Revision: revision}
	}
	if diff := gocmp.Diff(rows, f.rows, compareRows); diff != "" {
		return fmt.Errorf("the fold of the feed is not the table (-table +fold): %s", diff)
	}
	return nil
}

// follower is a cursor, the fold of what it has yielded, and the newest
// revision that it was shown.
type follower struct {
	*fold
	cursor *statedb.Cursor[item]
	newest statedb.Revision
}

// drain shows it a snapshot, which may be older than one before.
func (f *follower) drain(t *rapid.T, table *statedb.Table[item], txn statedb.ReadTxn) {
	t.Helper()
	older := table.Revision(txn) < f.newest
	if f.read(t, table, txn, math.MaxInt); older {
		return
	}
	check(t, "drained", f.differs(table, txn))
	for range f.cursor.Next(txn) {
		t.Fatal("a drained feed yielded more")
	}
	if now := table.Revision(txn); closed(f.cursor.Watch()) != (f.cursor.Lag() > 0) {
		t.Fatalf("drained to %d, the cursor lags by %d; watch closed: %t", now, f.cursor.Lag(), closed(f.cursor.Watch()))
	}
}

// read ends the loop after some changes, and checks each.
func (f *follower) read(t *rapid.T, table *statedb.Table[item], txn statedb.ReadTxn, most int) {
	t.Helper()
	older := table.Revision(txn) < f.newest
	loop := newFeedLoop(table, txn)
	for change := range f.cursor.Next(txn) {
		if older {
			t.Fatal("a snapshot older than the last one yielded changes")
		}
		check(t, "loop", loop.violation(change))
		f.apply(change)
		if loop.changes == most {
			break
		}
	}
	f.newest = max(f.newest, table.Revision(txn))
	switch {
	case loop.changes < most:
		f.settle()
	case !closed(f.cursor.Watch()):
		t.Fatal("the watch of a cursor that has more is open")
	}
}

var steps = []string{"commit", "commit", "burst", "burst", "follow", "drain", "drain", "peek", "peek", "stop"}

func TestFoldOfTheFeedIsTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := newDB()
		r := &run{t: t, db: db}
		table := r.add("", false)
		statedb.SetMinWindow(table, rapid.SampledFrom([]int{0, 300, 1 << 16}).Draw(t, "window"))
		var followers []*follower
		defer func() {
			for _, f := range followers {
				f.cursor.Close()
			}
		}()
		snapshots := []statedb.ReadTxn{db.ReadTxn()}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.SampledFrom(steps).Draw(t, "step") {
			case "commit":
				r.writeSome()
				snapshots = append(snapshots, db.ReadTxn())
			case "burst":
				r.burst()
				snapshots = append(snapshots, db.ReadTxn())
			case "follow":
				followers = append(followers, &follower{newFold(), table.Changes(0), 0})
			case "drain":
				for _, f := range followers {
					f.drain(t, statedb.ReadOnly(table.RWTable), rapid.SampledFrom(snapshots).Draw(t, "snapshot"))
				}
			case "peek":
				for _, f := range followers {
					f.read(t, statedb.ReadOnly(table.RWTable), rapid.SampledFrom(snapshots).Draw(t, "snapshot"), rapid.IntRange(1, 5).Draw(t, "changes"))
				}
			case "stop": // then nobody may follow, and changes are not recorded
				for _, f := range followers {
					f.cursor.Close()
				}
				followers = nil
			}
		}
		for _, f := range followers {
			f.drain(t, statedb.ReadOnly(table.RWTable), db.ReadTxn())
		}
	})
}

// writeSome commits random writes to the only table.
func (r *run) writeSome() {
	l := r.tables[0]
	txn, err := r.db.WriteTxn(r.t.Context(), l)
	check(r.t, "opening a transaction", err)
	r.txn, l.open = txn, true
	for range rapid.IntRange(0, 20).Draw(r.t, "writes") {
		r.write(l)
	}
	_, err = txn.Commit()
	check(r.t, "commit", err)
}

// burst makes more changes than the smallest window keeps.
func (r *run) burst() {
	l := r.tables[0]
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r.t, "burst"), 0))
	deletes := rapid.IntRange(0, 3).Draw(r.t, "deletes")
	check(r.t, "burst", r.db.Update(r.t.Context(), func(txn *statedb.WriteTxn) error {
		for range random.IntN(700) {
			i := item{ID: fmt.Sprint(random.IntN(30)), Number: random.IntN(100)}
			var err error
			if random.IntN(10) < deletes {
				_, _, err = l.Delete(txn, i)
				l.want.delete(i.ID)
			} else {
				_, _, err = l.Insert(txn, i)
				l.want.insert(i)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, l))
}

// TestFeedResumesAtARevision opens cursors at any revision: what they yield, put on top of
// the table at that revision, gives the table.
func TestFeedResumesAtARevision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := newDB()
		r := &run{t: t, db: db}
		table := r.add("", false)
		statedb.SetMinWindow(table, rapid.SampledFrom([]int{0, 1 << 16}).Draw(t, "window"))
		if rapid.Bool().Draw(t, "recorded") {
			defer table.Changes(0).Close()
		}
		snapshots := []statedb.ReadTxn{db.ReadTxn()}
		for range rapid.IntRange(1, 6).Draw(t, "commits") {
			r.writeSome()
			snapshots = append(snapshots, db.ReadTxn())
			if rapid.IntRange(0, 3).Draw(t, "burst if 0") == 0 {
				r.burst()
			}
		}
		begin := rapid.SampledFrom(snapshots).Draw(t, "begin")
		f := &follower{newFold(), table.Changes(table.Revision(begin)), 0}
		defer f.cursor.Close()
		for row, revision := range table.All(begin) {
			f.rows[row.ID] = modelRow{Item: row, Revision: revision}
		}
		f.drain(t, statedb.ReadOnly(table.RWTable), db.ReadTxn())
	})
}

func changes(cursor *statedb.Cursor[item], txn statedb.ReadTxn) []string {
	var all []string
	for change := range cursor.Next(txn) {
		all = append(all, describe(change))
	}
	return all
}

// describe is the kind of a change and the key of its row.
func describe(change statedb.Change[item]) string {
	kind := map[statedb.ChangeKind]string{statedb.Upsert: "+", statedb.Delete: "-", statedb.Reset: "reset"}[change.Kind]
	return kind + change.Object.ID
}

func (f *fixture) wantChanges(cursor *statedb.Cursor[item], want ...string) {
	f.t.Helper()
	if got := changes(cursor, f.db.ReadTxn()); !slices.Equal(got, want) {
		f.t.Fatalf("the feed yielded %v, expected %v", got, want)
	}
}

// follow opens a cursor that is closed with the test.
func (f *fixture) follow(after statedb.Revision) *statedb.Cursor[item] {
	cursor := f.items.Changes(after)
	f.t.Cleanup(cursor.Close)
	return cursor
}

func TestFeedBeginsWithAListingAndGoesOnInOrderOfChange(t *testing.T) {
	f := newFixture(t, item{ID: "b"}, item{ID: "a"}, item{ID: ""}, item{ID: "gone"})
	f.remove("gone")
	cursor := f.follow(0)
	f.wantChanges(cursor, "+", "+a", "+b")
	f.insert(item{ID: "z"}, item{ID: "b", Number: 1}, item{ID: "c"})
	f.remove("a")
	f.insert(item{ID: "z", Number: 2})
	f.wantChanges(cursor, "+b", "+c", "-a", "+z")
	f.wantChanges(cursor)
}

func TestFeedFromNowYieldsOnlyWhatComes(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	cursor := f.follow(f.items.Revision(f.db.ReadTxn()))
	watch := cursor.Watch()
	if closed(watch) {
		t.Error("the watch of a cursor that begins now is closed before a change")
	}
	f.insert(item{ID: "b"})
	if !closed(watch) {
		t.Error("the watch is open after a change")
	}
	f.wantChanges(cursor, "+b")
}

func TestFeedFromARevisionThatNeverWasBeginsWithAReset(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	f.wantChanges(f.follow(1_000), "reset", "+a")
}

func TestADrainedFeedRestsUntilTheNextCommit(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	cursor := f.follow(0)
	if !closed(cursor.Watch()) {
		t.Fatal("the watch before the listing is open")
	}
	f.wantChanges(cursor, "+a")
	for range 3 { // a loop over a drained feed would spin if this were closed
		if closed(cursor.Watch()) {
			t.Fatal("the watch of a drained feed is closed")
		}
		f.wantChanges(cursor)
	}
	watch := cursor.Watch()
	f.write().Abort()
	f.insert(item{ID: "a"}) // says nothing new
	if closed(watch) {
		t.Fatal("the watch closed although nothing changed")
	}
	f.insert(item{ID: "b"})
	if !closed(watch) || !closed(cursor.Watch()) {
		t.Fatal("the watch is open after a commit")
	}
	f.wantChanges(cursor, "+b")
}

func TestAPartlyReadFeedDoesNotBlock(t *testing.T) {
	f := newFixture(t, item{ID: ""}, item{ID: "a"}, item{ID: "b"})
	cursor := f.follow(0)
	next := func() string {
		for change := range cursor.Next(f.db.ReadTxn()) {
			return change.Object.ID
		}
		t.Fatal("the feed yielded nothing")
		return ""
	}
	for _, want := range []string{"", "a", "b"} {
		if got := next(); got != want {
			t.Fatalf("yielded %q, expected %q", got, want)
		}
		if !closed(cursor.Watch()) {
			t.Fatal("the watch is open although the loop ended early")
		}
	}
	f.wantChanges(cursor)
	f.insert(item{ID: "c"}, item{ID: "d"})
	if next() != "c" || !closed(cursor.Watch()) || next() != "d" {
		t.Fatal("the feed lost its place")
	}
}

func TestWritesDuringAPartlyReadListing(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"}, item{ID: "d"})
	cursor := f.follow(0)
	for range cursor.Next(f.db.ReadTxn()) { // "a" alone
		break
	}
	f.remove("a", "c")
	f.insert(item{ID: "aa"}, item{ID: "b", Number: 1})
	folded := newFold()
	folded.rows["a"] = modelRow{Item: item{ID: "a"}, Revision: 1}
	folded.drain(cursor, f.db.ReadTxn())
	check(t, "after the listing", folded.differs(statedb.ReadOnly(f.items), f.db.ReadTxn()))
}

func TestARowThatChangesDuringAListingIsToldOnceALoop(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	cursor := f.follow(0)
	for range cursor.Next(f.db.ReadTxn()) { // "a" alone
		break
	}
	f.insert(item{ID: "b", Number: 1}, item{ID: "c"})
	told := map[string]int{}
	for change := range cursor.Next(f.db.ReadTxn()) {
		told[change.Object.ID]++
	}
	if diff := gocmp.Diff(map[string]int{"b": 1, "c": 1}, told); diff != "" {
		t.Errorf("changes told (-want +got):\n%s", diff)
	}
}

func TestClosingInsideTheLoopEndsIt(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	cursor := f.items.Changes(0)
	seen := 0
	for range cursor.Next(f.db.ReadTxn()) {
		seen++
		cursor.Close()
		cursor.Close()
	}
	if seen != 1 {
		t.Errorf("%d changes came, expected 1", seen)
	}
	f.insert(item{ID: "c"})
	f.wantChanges(cursor)
	if !closed(cursor.Watch()) {
		t.Error("the watch of a closed cursor is open: who waits for it hangs")
	}
}

func TestClosingFromElsewhere(t *testing.T) {
	f := newFixture(t)
	cursor := f.items.Changes(0)
	var closer sync.WaitGroup
	closer.Go(func() {
		_ = cursor.Lag()
		cursor.Close()
	})
	for i := range 100 {
		f.insert(item{ID: fmt.Sprint(i)})
		for range cursor.Next(f.db.ReadTxn()) {
		}
	}
	closer.Wait()
	f.wantChanges(cursor)
}

func TestACursorClosedBetweenDeleteAndInsert(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	first, second := f.items.Changes(0), f.follow(0)
	f.wantChanges(first, "+a")
	f.wantChanges(second, "+a")
	f.remove("a")
	first.Close()
	f.insert(item{ID: "a", Number: 2})
	f.wantChanges(second, "+a") // the delete is no longer the last word
	f.remove("a")
	f.wantChanges(second, "-a")
}

func TestADeletedRowThatIsBackIsNotReportedAsDeleted(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	cursor := f.follow(0)
	f.wantChanges(cursor, "+a")
	f.remove("a")
	old := f.db.ReadTxn()
	f.insert(item{ID: "a"})
	f.wantChanges(cursor, "+a")
	if got := changes(cursor, old); got != nil {
		t.Errorf("an older snapshot yielded %v", got)
	}
}

func TestNextWithAnOpenTransactionSeesOnlyWhatIsCommitted(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	cursor := f.follow(0)
	f.wantChanges(cursor, "+a", "+b")
	txn := f.write()
	if _, _, err := f.items.Delete(txn, item{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := changes(cursor, txn); got != nil {
		t.Fatalf("the open transaction yielded %v", got)
	}
	txn.Abort()
	f.wantChanges(cursor) // a delete that was never committed
	f.remove("a")
	f.wantChanges(cursor, "-a") // the real one
	txn = f.write()
	if _, _, err := f.items.Delete(txn, item{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := changes(cursor, txn); !slices.Equal(got, []string{"-b"}) {
		t.Fatalf("the committed transaction yielded %v", got)
	}
}

func TestTwoCursorsDoNotDisturbEachOther(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	quick, slow := f.follow(0), f.follow(0)
	f.wantChanges(quick, "+a")
	f.insert(item{ID: "b"})
	f.remove("a")
	f.wantChanges(quick, "+b", "-a")
	f.insert(item{ID: "c"})
	f.wantChanges(slow, "+b", "+c")
	f.wantChanges(quick, "+c")
	if slow.Lag() != 0 || quick.Lag() != 0 {
		t.Errorf("lags %d and %d", slow.Lag(), quick.Lag())
	}
}

func TestInitializedIsNeverSeenBeforeTheRowsThatMadeItSo(t *testing.T) {
	for range 50 {
		f := newFixture(t)
		var source *statedb.Source
		f.update(func(txn *statedb.WriteTxn) (err error) {
			source, err = f.items.RegisterSource(txn, "source")
			return err
		})
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range 20 {
				f.insert(item{ID: fmt.Sprint(i)})
			}
			f.update(func(txn *statedb.WriteTxn) error {
				_, _, err := f.items.Insert(txn, item{ID: "last"})
				return errors.Join(err, source.Initialized(txn))
			})
		})
		snapshot := f.db.ReadTxn() // may well be older than the cursor
		cursor := f.follow(0)
		folded := newFold()
		for {
			folded.drain(cursor, snapshot)
			if initialized, _ := f.items.Initialized(snapshot); initialized {
				break
			}
			<-cursor.Watch()
			snapshot = f.db.ReadTxn()
		}
		if len(folded.rows) != 21 {
			t.Fatalf("initialized with %d rows, expected 21: %v", len(folded.rows), slices.Collect(maps.Keys(folded.rows)))
		}
		writer.Wait()
	}
}

func TestASnapshotFromBeforeTheCursorIsListed(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	before := f.db.ReadTxn()
	f.remove("a")
	cursor := f.follow(0)
	if got := changes(cursor, before); !slices.Equal(got, []string{"+a", "+b"}) {
		t.Fatalf("the snapshot from before yielded %v", got)
	}
	// The delete happened while nobody followed.
	f.wantChanges(cursor, "reset", "+b")
}

func TestASourcesNewsWakeWhoFollows(t *testing.T) {
	f := newFixture(t)
	cursor := f.follow(0)
	f.wantChanges(cursor)
	watch := cursor.Watch()
	f.update(func(txn *statedb.WriteTxn) error {
		_, err := f.items.RegisterSource(txn, "source")
		return err
	})
	if !closed(watch) {
		t.Error("who follows the table does not learn that it waits for a source")
	}
}
