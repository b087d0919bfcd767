package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

// Explanation is all that is known of how it stands with a row. It is plain data,
// which JSON carries.
type Explanation struct {
	Reconciler string `json:"reconciler"`
	Table      string `json:"table"`
	Key        string `json:"key"`    // of the row, as text
	Exists     bool   `json:"exists"` // in the table; otherwise it is being deleted
	Status     Status `json:"status"`
	// Spec is the revision of the last write of it that was not its status.
	Spec store.Revision `json:"spec"`
	// Origin is who wrote the row, such as a file and a line, if that is known;
	// Sources are all that feed the table.
	Origin  string              `json:"origin,omitempty"`
	Sources []store.SourceState `json:"sources"`

	// Queued says that it is to be run, or waits for something before it can be, for
	// these Reasons; otherwise they are why it last ran. Lane is the one that it is
	// ready in, if it is, Since when that came to be.
	Queued  bool      `json:"queued"`
	Reasons string    `json:"reasons"`
	Lane    string    `json:"lane,omitempty"`
	Since   time.Time `json:"since,omitzero"`

	// WaitsFor is never empty; what comes first is in the way of the rest.
	WaitsFor []Wait    `json:"waitsFor"`
	NextDue  time.Time `json:"nextDue,omitzero"`
	// Attempts is how many failed in a row, LastAttempts the last ones that failed
	// since it was last done, and LastError why the last one did.
	Attempts     int       `json:"attempts"`
	LastAttempts []Attempt `json:"lastAttempts"`
	LastError    string    `json:"lastError,omitempty"`
	// Drifted is how often it was repaired lately because it differed from what was
	// observed, LastDrift when that was the last time.
	Drifted   int       `json:"drifted,omitempty"`
	LastDrift time.Time `json:"lastDrift,omitzero"`
}

// UnknownKeyError says that a reconciler knows no row with a key. It matches
// [store.ErrNotFound].
type UnknownKeyError struct {
	Table string
	Key   string
	Like  []string // keys that there are and that are like it
	// Incomplete says, by source, why something may be missing in the table, and
	// why what the target has besides is not removed.
	Incomplete map[string]string
	Err        error // what is wrong with the key, if more than that nothing has it
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	text := fmt.Sprintf("table %s: key %q: %v", e.Table, e.Key, e.what())
	if len(e.Like) > 0 {
		text += "; like it: " + strings.Join(e.Like, ", ")
	}
	if len(e.Incomplete) > 0 {
		text += "; removal of surplus is held: " + reasons(e.Incomplete)
	}
	return text
}

// Unwrap returns what is wrong with the key, and a [SourceError] for each source
// that may be why.
func (e *UnknownKeyError) Unwrap() []error {
	errs := []error{e.what()}
	for _, name := range sortedKeys(e.Incomplete) {
		errs = append(errs, &SourceError{name, e.Incomplete[name]})
	}
	return errs
}

func (e *UnknownKeyError) what() error {
	if e.Err == nil {
		return store.ErrNotFound
	}
	return e.Err
}

// Explain says how it stands with a row, given its primary key as text: a row of
// the table, or one whose delete is pending. It works at any time, also while the
// reconciler does not run. [UnknownKeyError] when there is no such row.
func (r *Engine) Explain(ctx context.Context, key string) (Explanation, error) {
	var e Explanation
	var result error
	err := r.call(ctx, func(l *loop) { e, result = l.explain(key) })
	switch {
	case errors.Is(err, ErrNotRunning):
		return r.explainIdle(key)
	case err != nil:
		return Explanation{}, err
	}
	return e, result
}

// explainIdle is Explain while nothing runs.
func (r *Engine) explainIdle(key string) (Explanation, error) {
	txn := r.p.DB.ReadTxn()
	e, found, err := r.explainRow(txn, key)
	row, listed := r.notDoneRow(txn, key)
	if err != nil || found == nil && !listed {
		return e, r.unknownKey(txn, key, err, nil)
	}
	e.WaitsFor = r.startWaits(txn)
	if listed {
		e.Queued, e.Reasons, e.Attempts, e.LastError = true, row.Reasons, row.Attempts, row.LastError
		if row.WaitsFor != "" {
			e.WaitsFor = append(e.WaitsFor, Wait{Cause: row.State, Text: row.WaitsFor, Until: row.NextDue})
		}
		e.NextDue = row.NextDue
	}
	return e, nil
}

func (r *Engine) notDoneRow(txn store.ReadTxn, key string) (NotDone, bool) {
	if r.p.NotDone == nil {
		return NotDone{}, false
	}
	row, _, found := r.p.NotDone.Get(txn, NotDoneByKey.Query(NotDoneKey{r.p.Name, key}))
	return row, found
}

// startWaits is what all rows wait for before the reconciler runs, or afterwards.
func (r *Engine) startWaits(txn store.ReadTxn) []Wait {
	waitingFor := r.sources(txn).waitingFor
	select {
	case <-r.ended:
		return []Wait{{Cause: waitStopped, Text: "the reconciler has stopped"}}
	default:
	}
	switch failing := r.unready.Load(); {
	case !r.started.Load():
		return []Wait{{Cause: waitStopped, Text: "the reconciler was not started"}}
	case len(waitingFor) > 0:
		return []Wait{{Cause: waitSources, Text: waitingMessage(waitingFor)}}
	case failing != nil:
		return []Wait{*failing}
	default:
		return []Wait{{Cause: waitTarget, Text: "the target to be ready: Init runs"}}
	}
}

// explainRow says what the table knows of a row.
func (r *Engine) explainRow(txn store.ReadTxn, key string) (e Explanation, row *store.Entry, err error) {
	e = Explanation{
		Reconciler: r.p.Name, Table: r.p.Table.Name(), Key: key, Sources: r.p.Table.Sources(txn), LastAttempts: []Attempt{},
	}
	if r.sources(txn).dropped {
		_, err := r.p.DB.Table(txn, e.Table)
		return e, nil, err
	}
	q, err := r.p.Table.ParseKey(r.p.Table.Primary().Name, key)
	if err != nil {
		return e, nil, err
	}
	row = r.p.Table.Find(txn, q)
	if row == nil {
		return e, nil, nil
	}
	e.Key, e.Exists, e.Status, e.Spec = r.p.Table.KeyText(row), true, r.status(row), row.Spec()
	if failure := e.Status.Err(); failure != nil {
		e.LastError = failure.Error()
	}
	if r.p.Origin != nil {
		if panicked := pool.Guard(func() { e.Origin = r.p.Origin(e.Table, e.Key) }); panicked != nil {
			e.Origin = "not known: " + panicked.Error()
		}
	}
	return e, row, nil
}
