package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/statehive/statehive/statedb"
)

// Observation compares rows with a table of what was observed. [Observes] makes
// it; the zero value compares with nothing.
type Observation[Obj any] struct{ of observation[Obj] }

// Observes compares the rows of the reconciled table with what someone else, such
// as a subscription to events of the kernel, writes into another table: at each
// change of a row of that, also when it goes, and all of them when it has become
// initialized. rows names those that an observed row tells something about;
// compare says how the outside world differs from a row, as far as the snapshot's
// observed rows tell, and nothing when they agree. A row that has become done is
// compared once as well, a while later. What is done about a difference is up to
// Config.Drift.
//
// What was observed is old news, so little is believed of it:
//
//   - Only rows that are done are compared, and not before Drift.Settle has gone by
//     since the last operation on them: news from before it still arrive.
//   - It never decides what is done: the target's Update, with the newest row, does
//     so by itself. All that old news can cause is an Update without an effect.
//   - It never makes a row done, and nothing is deleted because of it: what is
//     observed and in no row is left to the full pass.
//   - That nothing is observed says nothing while the table is not initialized or
//     one of its sources is incomplete.
//   - The full pass asks the target itself. It repairs what nobody has observed.
//
// rows and compare are called from several goroutines, and return soon. A row for
// which compare panics is not compared, which health and log report.
func Observes[Obj, Seen any](
	table statedb.Table[Seen],
	rows func(txn statedb.ReadTxn, seen Seen) iter.Seq[statedb.Query[Obj]],
	compare func(txn statedb.ReadTxn, want Obj) []Change,
) Observation[Obj] {
	return Observation[Obj]{&observed[Obj, Seen]{watched[Obj, Seen]{of: table, owners: rows}, compare}}
}

// DriftPolicy says what is done about a row that differs from what is observed.
type DriftPolicy uint8

const (
	// DriftRepair has the row updated at once.
	DriftRepair DriftPolicy = iota
	// DriftReport shows it in health and in the not-done table. A full pass, a
	// change of the row and a trigger update it nevertheless.
	DriftReport
)

// Drift is what is done about rows that differ from what is observed of them.
type Drift struct {
	Policy DriftPolicy
	// Settle is how long the observed table may take to show what an operation has
	// done: differences are none before. Default 1 s.
	Settle time.Duration
	// Window: a row that drifts for the fourth time, each time within this of the
	// one before, is reported, and its repair waits for a backoff that grows with
	// every time. Default 5 minutes; at least twice Config.MaxBackoff.
	Window time.Duration
}

func (d Drift) withDefaults(maxBackoff time.Duration) Drift {
	setDefault(&d.Settle, time.Second)
	setDefault(&d.Window, 5*time.Minute)
	d.Window = max(d.Window, longer(maxBackoff, maxBackoff))
	return d
}

func (d Drift) check() error {
	switch {
	case d.Policy > DriftReport:
		return fmt.Errorf("Config.Drift.Policy is %d: it must be DriftRepair or DriftReport", d.Policy)
	case d.Settle < 0:
		return fmt.Errorf("Config.Drift.Settle is %v: it must be positive, or 0 for the default", d.Settle)
	case d.Window < 0:
		return fmt.Errorf("Config.Drift.Window is %v: it must be positive, or 0 for the default", d.Window)
	}
	return nil
}

// observation is an [Observation] with the type of the observed rows out of sight.
type observation[Obj any] interface {
	check() error
	table() statedb.TableMeta
	// reliable says that what is not in the table is not there.
	reliable(txn statedb.ReadTxn) bool
	differs(txn statedb.ReadTxn, obj Obj) ([]Change, error)
	// version is what reliable and differs depend on.
	version(txn statedb.ReadTxn) tableVersion
	// begin returns a function that follows the table from its beginning.
	begin(r *Reconciler[Obj]) (follow func(context.Context))
	// onChange returns a function that calls fn for each change of the table, and of
	// what is known of its sources, from now on.
	onChange(db *statedb.DB, fn func(statedb.ReadTxn)) (follow func(context.Context))
}

type observed[Obj, Seen any] struct {
	watched[Obj, Seen]
	compare func(statedb.ReadTxn, Obj) []Change
}

func (o *observed[Obj, Seen]) check() error {
	if o.compare == nil {
		return errors.New("the function that compares is not set")
	}
	return o.watched.check()
}

func (o *observed[Obj, Seen]) reliable(txn statedb.ReadTxn) bool {
	if initialized, _ := o.of.Initialized(txn); !initialized {
		return false // nor if it was dropped
	}
	for _, s := range o.of.Sources(txn) {
		if s.Incomplete != "" {
			return false
		}
	}
	return true
}

func (o *observed[Obj, Seen]) version(txn statedb.ReadTxn) tableVersion {
	return tableVersion{o.of.Revision(txn), o.reliable(txn)}
}

func (o *observed[Obj, Seen]) differs(txn statedb.ReadTxn, obj Obj) (changes []Change, err error) {
	err = guard(func() { changes = o.compare(txn, obj) })
	return changes, err
}

func (o *observed[Obj, Seen]) onChange(db *statedb.DB, fn func(statedb.ReadTxn)) func(context.Context) {
	watch := o.of.Watch(db.ReadTxn())
	return func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch:
				txn := db.ReadTxn()
				watch = o.of.Watch(txn) // nil once the table was dropped
				fn(txn)
			}
		}
	}
}

func (o *observed[Obj, Seen]) begin(r *Reconciler[Obj]) func(context.Context) {
	y := newRelay(r, "observed table "+o.of.Name(), reasonDrift)
	feed := &childFeed[Obj, Seen]{watched: &o.watched, relay: y, cursor: o.of.Changes(0), last: map[string][]statedb.Query[Obj]{}}
	f := &driftFeed[Obj, Seen]{
		observed: o, r: r, feed: feed, whole: true, own: r.p.Table.Changes(r.p.Table.Revision(r.p.DB.ReadTxn())),
	}
	return f.follow
}

// checkObserved says what is wrong with the params' observation.
func (p Params[Obj]) checkObserved() error {
	if p.Observed.of == nil {
		return nil
	}
	if err := p.Observed.of.check(); err != nil {
		return fmt.Errorf("Params.Observed: %w", err)
	}
	return nil
}

// driftFeed follows an observed table, and the rows: each is compared once more
// when it has been done for a while, because what it is compared with may not have
// changed since. Rows that may have drifted are handed over to the deciding
// goroutine, which compares them again when their time has come.
type driftFeed[Obj, Seen any] struct {
	*observed[Obj, Seen]
	r     *Reconciler[Obj]
	feed  *childFeed[Obj, Seen]
	own   *statedb.Cursor[Obj]
	whole bool           // all rows are to be compared
	fresh []settled[Obj] // rows that are done since a short time, oldest first

	suspects []statedb.Query[Obj]
}

// settled is a row that is to be compared at a time.
type settled[Obj any] struct {
	query statedb.Query[Obj]
	due   time.Time
}

func (f *driftFeed[Obj, Seen]) follow(ctx context.Context) {
	defer f.feed.cursor.Close()
	defer f.own.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		f.look(f.r.p.DB.ReadTxn(), now)
		due := time.Time{}
		if len(f.fresh) > 0 {
			due = f.fresh[0].due
		}
		setTimer(timer, now, due)
		select {
		case <-ctx.Done():
			return
		case <-f.feed.cursor.Watch():
		case <-f.own.Watch():
		case <-timer.C:
		}
	}
}

// look compares what has to be with a snapshot.
func (f *driftFeed[Obj, Seen]) look(txn statedb.ReadTxn, now time.Time) {
	f.feed.collect(txn)
	named := f.feed.relay.rows
	f.feed.relay.clear()
	f.takeDone(txn, now)
	switch {
	case !f.reliable(txn):
		f.whole, f.fresh = true, nil
	case f.whole:
		f.whole, f.fresh = false, nil
		for obj := range f.r.p.Table.All(txn) {
			f.examine(txn, obj)
		}
	default:
		f.lookAtFresh(txn, now)
		for _, key := range sortedKeys(named) {
			f.examineRow(txn, named[key])
		}
	}
	if len(f.suspects) > 0 {
		_ = f.r.inbox.trigger(f.suspects, laneRetry, reasonDrift) // refused only when Run ends
		f.suspects = nil
	}
}

// takeDone notes which rows have become done.
func (f *driftFeed[Obj, Seen]) takeDone(txn statedb.ReadTxn, now time.Time) {
	due := now.Add(f.r.p.Config.Drift.Settle)
	for change := range f.own.Next(txn) {
		switch {
		case change.Kind == statedb.Reset:
			f.whole = true
		case change.Kind == statedb.Upsert && f.r.status.Get(change.Object).Kind() == Done:
			f.fresh = append(f.fresh, settled[Obj]{f.r.p.Table.KeyQuery(change.Object), due})
		}
	}
}

// lookAtFresh compares the rows that have been done for long enough.
func (f *driftFeed[Obj, Seen]) lookAtFresh(txn statedb.ReadTxn, now time.Time) {
	n := 0
	for n < len(f.fresh) && !f.fresh[n].due.After(now) {
		f.examineRow(txn, f.fresh[n].query)
		n++
	}
	if f.fresh = f.fresh[n:]; len(f.fresh) == 0 {
		f.fresh = nil
	}
}

func (f *driftFeed[Obj, Seen]) examineRow(txn statedb.ReadTxn, query statedb.Query[Obj]) {
	if obj, _, found := f.r.p.Table.Get(txn, query); found {
		f.examine(txn, obj)
	}
}

// examine takes a row for suspect that is done and differs, or that did and agrees.
func (f *driftFeed[Obj, Seen]) examine(txn statedb.ReadTxn, obj Obj) {
	if f.r.status.Get(obj).Kind() != Done {
		return // when it is, it is compared
	}
	changes, err := f.differs(txn, obj)
	f.feed.relay.trouble(func() string { return f.r.p.Table.Key(obj) }, err)
	if err != nil || len(changes) == 0 && f.r.drifted.empty() {
		return
	}
	query := f.r.p.Table.KeyQuery(obj)
	if len(changes) > 0 || f.r.drifted.has(query.Encoded()) {
		f.suspects = append(f.suspects, query)
	}
}

// keySet is a set of encoded keys that several goroutines use.
type keySet struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (s *keySet) set(key string, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	if s.keys[key] = true; !in {
		delete(s.keys, key)
	}
}

func (s *keySet) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys) == 0
}

func (s *keySet) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}
