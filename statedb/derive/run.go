package derive

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
	"github.com/statehive/statehive/statedb"
)

// subject is a row of the output that has to be computed or deleted. If it is not keyed, it
// is a row of the output that no input row affects.
type subject[Out, Key any] struct {
	query statedb.Query[Out]
	key   Key
	keyed bool
}

// running is the state of a Derivation while it runs. It belongs to the goroutine of Run.
type running[Out, Key any] struct {
	*Derivation[Out, Key]
	out    *statedb.RWTable[Out]
	limit  *loglimit.Handler
	log    *slog.Logger
	feeds  []feed[Key]
	before statedb.ReadTxn // the inputs as last processed

	dirty    map[string]subject[Out, Key] // by encoded key
	failed   failures[Out, Key]
	unknown  unknownRows
	kept     map[string]subject[Out, Key] // to be deleted once that is allowed
	whole    bool                         // all rows have to be computed
	inputs   inputState
	declared statedb.SourceState // the state of the source in the output
	reported string              // the last report to Health
}

// unknownRows is the failure to determine the rows that an input row affects.
type unknownRows struct {
	err      error // or nil
	attempts int
	due      time.Time // when to compute all rows because of that
}

// inputState is the state of the sources of all inputs in a snapshot.
type inputState struct {
	initialized bool
	incomplete  []string
}

func (d *Derivation[Out, Key]) begin() *running[Out, Key] {
	limit := loglimit.New(d.spec.Logger.Handler(), loglimit.Options{})
	r := &running[Out, Key]{
		Derivation: d,
		out:        d.spec.Output,
		limit:      limit,
		log:        slog.New(limit),
		before:     d.db.ReadTxn(),
		dirty:      map[string]subject[Out, Key]{},
		failed:     newFailures[Out, Key](d.pause),
		kept:       map[string]subject[Out, Key]{},
		whole:      true,
	}
	for _, input := range d.spec.Inputs {
		r.feeds = append(r.feeds, input.open(r.before))
	}
	for _, state := range r.out.Sources(r.before) {
		if state.Name == d.spec.Source {
			r.declared = state
		}
	}
	return r
}

func (r *running[Out, Key]) close() {
	for _, f := range r.feeds {
		f.close()
	}
	r.failing.Store(0)
	r.limit.Close()
}

func (r *running[Out, Key]) loop(ctx context.Context) error {
	for {
		now := r.db.ReadTxn()
		err := r.collect(now)
		if err == nil {
			err = r.settle(ctx, now)
		}
		if err == nil {
			r.reportHealth()
			err = r.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// collect determines which rows have to be computed.
func (r *running[Out, Key]) collect(now statedb.ReadTxn) error {
	if r.unknown.err != nil && !r.unknown.due.After(time.Now()) {
		r.whole = true
	}
	if !r.whole {
		for _, f := range r.feeds {
			if !f.changes(r.before, now, r) {
				r.whole = true
			}
		}
	}
	if r.whole {
		r.collectAll(now)
	}
	for _, f := range r.feeds {
		if err := f.err(); err != nil {
			return err
		}
	}
	r.inputs = r.stateOf(now)
	if r.inputs.initialized && len(r.inputs.incomplete) == 0 {
		for encoded, s := range r.kept {
			r.add(encoded, s)
		}
	}
	r.failed.addDue(r.dirty, time.Now())
	return nil
}

// collectAll marks the rows that the inputs affect and those that the output has.
func (r *running[Out, Key]) collectAll(now statedb.ReadTxn) {
	r.unknown.err = nil
	for _, f := range r.feeds {
		f.all(now, r)
	}
	for row := range r.out.All(now) {
		q := r.out.KeyQuery(row)
		r.add(q.Encoded(), subject[Out, Key]{query: q})
	}
	if r.unknown.err == nil {
		r.unknown.attempts = 0
	}
}

// add adds a row to be processed, unless it has been added already.
func (r *running[Out, Key]) add(encoded string, s subject[Out, Key]) {
	if _, there := r.dirty[encoded]; !there {
		r.dirty[encoded] = s
	}
}

// mark implements marker.
func (r *running[Out, Key]) mark(key Key) {
	q := r.spec.Primary.Query(key)
	encoded := q.Encoded()
	r.dirty[encoded] = subject[Out, Key]{q, key, true}
	r.failed.affected(encoded)
}

// unmapped implements marker.
func (r *running[Out, Key]) unmapped(err error) {
	r.report(unmappedMessage, err)
	now := time.Now()
	if r.unknown.err == nil {
		r.unknown.err = err
		r.unknown.attempts++
		r.unknown.due = now.Add(r.pause.After(r.unknown.attempts, rand.Float64))
	}
	if soon := now.Add(r.pause.After(1, rand.Float64)); !r.whole && soon.Before(r.unknown.due) {
		r.unknown.due = soon
	}
}

func (r *running[Out, Key]) stateOf(now statedb.ReadTxn) inputState {
	state := inputState{initialized: true}
	for _, f := range r.feeds {
		initialized, incomplete := f.state(now)
		state.initialized = state.initialized && initialized
		state.incomplete = append(state.incomplete, incomplete...)
	}
	return state
}

// holdsDelete reports whether a row must not be deleted yet, although no input row seems to
// affect it: because the inputs are not initialized, because all rows are compared while an
// input is incomplete, or because the rows affected by some input row are unknown.
func (r *running[Out, Key]) holdsDelete(s subject[Out, Key]) bool {
	return !r.inputs.initialized || r.whole && len(r.inputs.incomplete) > 0 || !s.keyed && r.unknown.err != nil
}

// reason returns why the output is incomplete, or "".
func (r *running[Out, Key]) reason() string {
	reasons := slices.Clone(r.inputs.incomplete)
	if r.unknown.err != nil {
		reasons = append(reasons, r.unknown.err.Error())
	}
	if first := r.failed.first(); first != nil {
		text := first.Error()
		if more := len(r.failed.byKey) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		reasons = append(reasons, text)
	}
	return strings.Join(reasons, "; ")
}

// snapshotAge is how long the snapshot that changes are compared with is kept while the
// inputs do not change. The snapshot keeps old rows of all tables of the database alive, even
// of tables that are not inputs.
const snapshotAge = time.Minute

// wait returns when an input has changed, a retry is due, or the snapshot is old. It
// returns ctx's error.
func (r *running[Out, Key]) wait(ctx context.Context) error {
	cases := make([]reflect.SelectCase, 0, len(r.feeds)+2)
	add := func(ch any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)})
	}
	add(ctx.Done())
	for _, f := range r.feeds {
		add(f.watch())
	}
	pause := snapshotAge
	if due, waiting := r.nextRetry(); waiting {
		pause = min(pause, time.Until(due))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	add(timer.C)
	reflect.Select(cases)
	return ctx.Err()
}

func (r *running[Out, Key]) nextRetry() (due time.Time, waiting bool) {
	due, waiting = r.failed.next()
	if r.unknown.err != nil && (!waiting || r.unknown.due.Before(due)) {
		return r.unknown.due, true
	}
	return due, waiting
}
