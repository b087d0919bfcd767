package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Explanation is everything known about the state of a row. It is plain data that can be
// encoded as JSON.
type Explanation struct {
	Reconciler string `json:"reconciler"`
	Table      string `json:"table"`
	Key        string `json:"key"`    // of the row, as text
	Exists     bool   `json:"exists"` // in the table; otherwise it is being deleted
	Status     Status `json:"status"`
	// Spec is the revision of the last write other than of its status.
	Spec store.Revision `json:"spec"`
	// Origin is who wrote the row, such as a file and a line, if known. Sources are all
	// sources of the table.
	Origin  string              `json:"origin,omitempty"`
	Sources []store.SourceState `json:"sources"`

	// Queued reports whether the row is going to run, now or later. Reasons are the reasons
	// for that, or for its last run if it is not queued. Class is its priority class if it is
	// ready, and Since is when it was queued.
	Queued  bool      `json:"queued"`
	Reasons string    `json:"reasons"`
	Class   string    `json:"class,omitempty"`
	Since   time.Time `json:"since,omitzero"`

	// WaitsFor is never empty. Each element has to end before the next one matters.
	WaitsFor []Wait    `json:"waitsFor"`
	NextDue  time.Time `json:"nextDue,omitzero"`
	History
}

// History is the recent history of a row.
type History struct {
	// Attempts is the number of consecutive failures, LastAttempts the most recent ones since
	// the row was last done, and LastError the error of the last one.
	Attempts     int       `json:"attempts"`
	LastAttempts []Attempt `json:"lastAttempts"`
	LastError    string    `json:"lastError,omitempty"`
	// Drifted is how often the row was recently repaired because it differed from the observed
	// state, and LastDrift when it last was.
	Drifted   int       `json:"drifted,omitempty"`
	LastDrift time.Time `json:"lastDrift,omitzero"`
}

// UnknownKeyError is the error for a key that no row has. It matches [store.ErrNotFound].
type UnknownKeyError struct {
	Table string
	Key   string
	Like  []string // similar keys that exist
	// Incomplete has, by source, the reasons why rows may be missing in the table, and why
	// orphans are not removed.
	Incomplete map[string]string
	Err        error // the error of the key itself, or nil
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	text := fmt.Sprintf("table %s: key %q: %v", e.Table, e.Key, e.what())
	if len(e.Like) > 0 {
		text += "; similar keys: " + strings.Join(e.Like, ", ")
	}
	if len(e.Incomplete) > 0 {
		text += "; removal of orphans is held: " + reasons(e.Incomplete)
	}
	return text
}

// Unwrap returns the error of the key, and a [SourceError] for each incomplete source.
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

// Explain explains the state of a row, given its primary key as text. The row is in the table,
// or its delete is pending. Explain also works while the reconciler is not running. It returns
// an [UnknownKeyError] if there is no such row.
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

// explainIdle is Explain while the reconciler is not running.
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

// startWaits returns what all rows wait for while the loop is not running.
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

// explainRow explains a row as far as the table alone allows.
func (r *Engine) explainRow(txn store.ReadTxn, key string) (e Explanation, row *store.Entry, err error) {
	e = Explanation{
		Reconciler: r.p.Name, Table: r.p.Table.Name(), Key: key, Sources: r.p.Table.Sources(txn),
		History: History{LastAttempts: []Attempt{}},
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
			e.Origin = "unknown: " + panicked.Error()
		}
	}
	return e, row, nil
}

// explain is [Reconciler.Explain] in the loop. The rows of the current round become items first,
// so that only the queue has to be searched.
func (l *loop) explain(key string) (Explanation, error) {
	now := time.Now()
	if l.round.open > 0 {
		l.giveUpRound(now)
	}
	txn := l.r.p.DB.ReadTxn()
	e, row, err := l.r.explainRow(txn, key)
	it := l.deletingItem(key)
	if row != nil {
		it = l.queue.Items[keyOf(row)]
	}
	if err != nil || row == nil && it == nil {
		return e, l.r.unknownKey(txn, key, err, l)
	}
	switch {
	case it != nil:
		l.explainItem(&e, it, now)
	case e.Status.Kind() == Done:
		e.WaitsFor = []Wait{{Cause: waitNothing, Text: "nothing: it is done"}}
	default:
		e.Queued = true
		e.Reasons = workqueue.Change.String()
		e.WaitsFor = l.readyWaits(Wait{Cause: waitTurn, Text: "its turn: the change has not been read yet"}, now)
	}
	if row != nil {
		e.Drifted, e.LastDrift = l.repairs.Of(keyOf(row))
	}
	if cause := e.WaitsFor[0].Cause; e.Exists && (cause == waitNothing || cause == workqueue.Refresh.String()) {
		e.WaitsFor = append(e.WaitsFor, l.pauseOf(row)...)
	}
	return e, nil
}

// pauseOf explains the pause of a row that is done.
func (l *loop) pauseOf(row *store.Entry) []Wait {
	until, paused := l.r.pauses.Paused(row)
	if !paused {
		return nil
	}
	text := workqueue.Paused.String() + ": its next change waits until it is resumed"
	if !until.IsZero() {
		text = workqueue.Paused.String() + ": its next change waits until " + until.Format(timeFormat)
	}
	return []Wait{{Cause: workqueue.Paused.String(), Text: text, Until: until}}
}

func (l *loop) explainItem(e *Explanation, it *workqueue.Item, now time.Time) {
	e.Queued, e.Attempts, e.Since = true, it.Attempts, it.Since
	e.LastAttempts = append(e.LastAttempts, it.Tries...)
	if e.Reasons = it.Reasons.String(); it.Reasons == 0 {
		e.Reasons = it.Ran.String()
	}
	if it.Err != nil {
		e.LastError = it.Err.Error()
	}
	switch stage := it.Stage(); {
	case stage == workqueue.Queued:
		e.Class = it.Class().String()
		text := fmt.Sprintf("its turn: %d before it in class %v", it.Before(), it.Class())
		e.WaitsFor = l.readyWaits(Wait{Cause: waitTurn, Text: text}, now)
	case stage == workqueue.Committing:
		e.WaitsFor = []Wait{{Cause: waitCommit, Text: "the commit of its status"}}
	case stage.InHand():
		e.WaitsFor = []Wait{l.runningWait(it)}
	default:
		e.WaitsFor, e.NextDue = []Wait{waitOf(it)}, it.Due()
		if stage == workqueue.Limit {
			e.WaitsFor[0].Text += "; it is part of plan " + l.limits.PlanID()
		}
		if !l.ready {
			e.WaitsFor = append(e.WaitsFor, Wait{Cause: waitSources, Text: waitingMessage(l.health.sources.waitingFor)})
		}
	}
}

// readyWaits returns what a ready row waits for.
func (l *loop) readyWaits(turn Wait, now time.Time) []Wait {
	switch {
	case !l.ready:
		return []Wait{{Cause: waitSources, Text: waitingMessage(l.health.sources.waitingFor)}, turn}
	case l.exclusive:
		return []Wait{{Cause: waitPrune, Text: "the target to be pruned: nothing else runs meanwhile"}, turn}
	case l.rate.Holds(now):
		limiter := l.r.limits.Load().Limiter
		text := "the rate limit"
		if limiter != nil {
			text = fmt.Sprintf("the rate limit of %v operations per second", float64(limiter.Limit()))
		}
		return []Wait{{Cause: waitRate, Text: text}, turn}
	default:
		return []Wait{turn}
	}
}

// runningWait returns what an item that a worker has is waiting for.
func (l *loop) runningWait(it *workqueue.Item) Wait {
	for _, w := range l.pool.All() {
		if w.Batch == nil {
			continue
		}
		since, runs := w.Began()
		if !runs {
			since = w.Batch.At
		}
		switch progress, kind, before := w.Batch.ProgressOf(it); progress {
		case pool.Ended:
			return Wait{Cause: waitCommit, Text: "the commit of its status"}
		case pool.Waiting:
			return Wait{Cause: waitTurn, Text: fmt.Sprintf("its turn: %d before it in the batch of a worker", before)}
		case pool.Begun:
			return runningWait(kind, since, l.r.p.Config.OperationTimeout, w.Stuck)
		case pool.Elsewhere:
		}
	}
	return Wait{Cause: waitRunning, Text: "its operation to return"}
}

// maxLike and maxCompared bound the search for similar keys.
const (
	maxLike     = 5
	maxCompared = 10_000
)

// unknownKey returns the error for a key that no row has. It names the keys that share the
// longest prefix with it, including those of pending deletes if l is not nil.
func (r *Engine) unknownKey(txn store.ReadTxn, key string, err error, l *loop) error {
	unknown := &UnknownKeyError{Table: r.p.Table.Name(), Key: key, Incomplete: r.sources(txn).incomplete, Err: err}
	best, compared := 0, 0
	consider := func(other string) {
		n := commonPrefix(key, other)
		if n > best {
			best, unknown.Like = n, nil
		}
		if n == best && len(unknown.Like) < maxLike {
			unknown.Like = append(unknown.Like, other)
		}
	}
	for e := range r.all(txn) {
		if compared++; compared > maxCompared {
			break
		}
		consider(r.p.Table.KeyText(e))
	}
	if l != nil {
		for _, encoded := range sortedKeys(l.queue.Items) {
			if it := l.queue.Items[encoded]; it.Deleting {
				consider(r.p.Table.KeyText(it.Entry))
			}
		}
	}
	return unknown
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func (r *Engine) whyNotDeleting(key string, l *loop) error {
	txn := r.p.DB.ReadTxn()
	_, row, err := r.explainRow(txn, key)
	if row != nil {
		return fmt.Errorf("table %s: key %q: %w", r.p.Table.Name(), key, errNotDeleted)
	}
	return r.unknownKey(txn, key, err, l)
}
