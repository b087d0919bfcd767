package hold

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// DriftPolicy is how to handle a row that has drifted.
type DriftPolicy uint8

const (
	// DriftRepair updates the row immediately.
	DriftRepair DriftPolicy = iota
	// DriftReport only reports the row, in health and in the not-done table. A full pass, a
	// change of the row, or a trigger updates it nevertheless.
	DriftReport
)

// Drift configures the handling of rows that differ from the observed table.
type Drift struct {
	Policy DriftPolicy
	// Settle is how long the observed table may take to show the effect of an operation.
	// Differences found earlier do not count as drift. The default is 1 second.
	Settle time.Duration
	// Window is the time between two drifts of a row that count as repeated. From the fourth
	// repeated drift on the row is reported, and its repair waits for a backoff that grows
	// each time. The default is 5 minutes; at least twice Config.MaxBackoff is used.
	Window time.Duration
}

// WithDefaults returns d with its zero fields set to their defaults.
func (d Drift) WithDefaults(maxBackoff time.Duration) Drift {
	setDefault(&d.Settle, time.Second)
	setDefault(&d.Window, 5*time.Minute)
	d.Window = max(d.Window, maxBackoff+min(maxBackoff, math.MaxInt64-maxBackoff))
	return d
}

// Check returns an error if d is invalid.
func (d Drift) Check() error {
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

// promptRepairs is the number of consecutive repairs that are not delayed.
const promptRepairs = 3

// RepairParams are the parameters of [NewRepairs].
type RepairParams struct {
	Owner
	Observed *Observation // nil: nothing drifts
	Listings *Listings
	Drift    Drift
	Status   func(row *store.Entry) status.Status
	Backoff  func(attempts int) time.Duration
	// Recheck is called with the encoded key of a row that is held although it no longer
	// differs in the newest snapshot.
	Recheck func(key string)
	// Count is called for each repair and for each reported row.
	Count func()
}

// Repairs is the policy that holds the repairs of rows that have drifted: all repairs under
// [DriftReport] and while the observed table is not reliable, and those of rows that drift
// repeatedly. Make it with [NewRepairs].
type Repairs struct {
	p       RepairParams
	repairs map[string]repairs // by encoded key
	rows    driftedRows
	expires time.Time // when the next repair can be forgotten; zero: never
	changed bool      // see Changed
}

// driftedRows has the keys of drifted rows as text, by encoded key.
type driftedRows struct {
	flapping map[string]string // repaired too often
	reported map[string]string // only reported
	held     map[string]string // held by any policy
}

// repairs are the repairs of a row, each within the window of the one before.
type repairs struct {
	n    int
	last time.Time
	next time.Time // no repair before this time
}

// NewRepairs returns the policy, without any past repairs.
func NewRepairs(p RepairParams) *Repairs {
	return &Repairs{
		p: p, repairs: map[string]repairs{},
		rows: driftedRows{flapping: map[string]string{}, reported: map[string]string{}, held: map[string]string{}},
	}
}

// IsRepair reports whether drift is the only reason to run an operation.
func (r *Repairs) IsRepair(t *pool.Task) bool { return r.isRepair(t, t.Item.Reasons) }

func (r *Repairs) isRepair(t *pool.Task, why workqueue.Reason) bool {
	return r.p.Observed != nil && t.Kind == pool.Update && t.Was == status.Done && why.OnlyDrift()
}

// Certainty returns how far the observed table can be relied on for the row of an operation: it
// is Unknown while the table is not reliable.
func (r *Repairs) Certainty(t *pool.Task, txn store.ReadTxn, now time.Time) Certainty {
	if !r.p.Observed.Reliable(txn) {
		return Unknown
	}
	about := r.p.Listings.About(t.Item.Key, r.lastApplied(t), now)
	if about == Uncertain && (t.Item.Differs || r.p.Drift.Policy == DriftReport) {
		return Certain // the drift is already known, or no update may be run to make sure
	}
	return about
}

// lastApplied returns when the last known update of a row ended.
func (r *Repairs) lastApplied(t *pool.Task) time.Time {
	last := r.p.Status(t.Entry).Since()
	if t.Item.Applied.After(last) {
		last = t.Item.Applied
	}
	return last
}

// SettledAt returns when the observed table must show the effect of the last update of a row.
func (r *Repairs) SettledAt(t *pool.Task, now time.Time) time.Time {
	last := r.lastApplied(t)
	if last.After(now) { // the clock was set back, and nothing would settle before it is that late again
		return now
	}
	return last.Add(r.p.Drift.Settle)
}

// Holds implements [Policy].
func (r *Repairs) Holds(t *pool.Task, txn store.ReadTxn, now time.Time) (why Reason, held bool) {
	if !r.IsRepair(t) || !t.Item.Differs || r.p.Observed.dropped(txn) { // nothing will be observed in a dropped table
		return Reason{}, false
	}
	switch {
	case r.Certainty(t, txn, now) == Unknown:
		why = Reason{Text: "table " + r.p.Observed.Table.Name() + ", which is incomplete"}
	case r.p.Drift.Policy == DriftReport:
		why = r.report(t, txn)
	default:
		if why, held = r.slow(t, txn, now); !held {
			return Reason{}, false
		}
	}
	why.Stage = workqueue.Drift
	r.recheck(t.Item.Key)
	return why, true
}

// report counts a row as drifted, once until it agrees again.
func (r *Repairs) report(t *pool.Task, txn store.ReadTxn) Reason {
	key := t.Item.Key
	if _, known := r.rows.reported[key]; !known {
		r.p.Count()
		r.rows.reported[key] = r.p.Table.KeyText(t.Item.Entry)
	}
	return Reason{Text: r.differences(t, txn) + "; drift is only reported"}
}

// slow reports whether the repair of a row must wait because it has drifted too often.
func (r *Repairs) slow(t *pool.Task, txn store.ReadTxn, now time.Time) (Reason, bool) {
	before := r.repairs[t.Item.Key]
	if !now.Before(before.next) {
		return Reason{}, false
	}
	text := fmt.Sprintf("%s; it has drifted %d times, each within %v of the previous time: its repair is delayed",
		r.differences(t, txn), before.n+1, r.p.Drift.Window)
	return Reason{Text: text, Until: before.next}, true
}

func (r *Repairs) differences(t *pool.Task, txn store.ReadTxn) string {
	changes, _ := r.p.Observed.Differs(txn, t.Entry)
	return Differences(changes)
}

// recheck checks a row once more that was just held: an observation that arrived before the row was
// known to differ has triggered nothing.
func (r *Repairs) recheck(key string) {
	txn, row := r.p.newest(key)
	if row == nil {
		return
	}
	if changes, err := r.p.Observed.Differs(txn, row); err == nil && len(changes) == 0 && r.p.Observed.Reliable(txn) {
		r.p.Recheck(key)
	}
}

// Ended counts a repair. Retries of one that has failed do not count, because their row is in error.
func (r *Repairs) Ended(t *pool.Task, now time.Time) {
	it := t.Item
	if it == nil || !it.Differs || !r.isRepair(t, it.Ran) {
		return
	}
	r.p.Count()
	repair := repairs{n: r.repairs[it.Key].n + 1, last: now}
	if repair.n >= promptRepairs {
		repair.next = now.Add(r.p.Backoff(repair.n - promptRepairs + 1))
	}
	r.repairs[it.Key] = repair
	r.expires = earliest(r.expires, now.Add(r.p.Drift.Window))
	if repair.n > promptRepairs {
		r.rows.flapping[it.Key] = r.p.Table.KeyText(it.Entry)
		r.changed = true
	}
}

// Of returns how often a row was repaired recently, and the time of the last repair.
func (r *Repairs) Of(key string) (n int, last time.Time) {
	of := r.repairs[key]
	return of.n, of.last
}

// Held records that an item is held by any policy.
func (r *Repairs) Held(it *workqueue.Item) {
	_, held := r.rows.held[it.Key]
	_, flaps := r.rows.flapping[it.Key]
	if it.Differs && !held && !flaps {
		r.rows.held[it.Key] = r.p.Table.KeyText(it.Entry)
		r.changed = true
	}
}

// Agrees records that a row no longer differs.
func (r *Repairs) Agrees(key string) {
	delete(r.rows.reported, key)
	if _, held := r.rows.held[key]; held {
		delete(r.rows.held, key)
		r.changed = true
	}
}

// Expires returns when the next repairs can be forgotten, or zero.
func (r *Repairs) Expires() time.Time { return r.expires }

// Expire forgets old repairs.
func (r *Repairs) Expire(now time.Time) {
	if r.expires.IsZero() || now.Before(r.expires) {
		return
	}
	r.expires = time.Time{}
	for key, of := range r.repairs {
		if end := r.end(of); end.After(now) {
			r.expires = earliest(r.expires, end)
			continue
		}
		delete(r.repairs, key)
		delete(r.rows.flapping, key)
		r.changed = true
	}
}

// end returns when to forget repairs: after the window, but not before a delayed repair was due.
func (r *Repairs) end(of repairs) time.Time {
	return of.last.Add(max(r.p.Drift.Window, 2*of.next.Sub(of.last)))
}

// Changed reports whether the results of Flapping or Unrepaired may have changed since the last
// call of Changed.
func (r *Repairs) Changed() (changed bool) {
	changed, r.changed = r.changed, false
	return changed
}

// Flapping returns an error that names the rows that drift repeatedly, or nil if there are none.
func (r *Repairs) Flapping() error { return someRows(r.rows.flapping) }

// Unrepaired returns an error that names the drifted rows that are held, or nil if there are none.
func (r *Repairs) Unrepaired() error { return someRows(r.rows.held) }

// someRows returns an error that names the first of the rows, or nil if there are none.
func someRows(texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Values(texts)))
	if len(texts) == 1 {
		return errors.New(first)
	}
	return fmt.Errorf("%s and %d more", first, len(texts)-1)
}
