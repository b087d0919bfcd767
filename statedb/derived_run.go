package statedb

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// deriving is a running Deriver. It belongs to the goroutine of Run.
type deriving[Out, Key any] struct {
	*Deriver[Out, Key]
	db       *DB
	feeds    []inputFeed[Key]
	versions []tableVersion // of the inputs, as they were dealt with last

	dirty    map[string]Key // to be computed, by encoded key
	failed   failures[Key]
	unknown  unknownRows
	held     map[string]Key // rows to be deleted once the inputs are ready and complete
	whole    bool           // all rows have to be computed
	inputs   inputState
	declared SourceState // what the output knows of its source
}

// unknownRows is the failure to tell what a row of an input affects.
type unknownRows struct {
	err      error // or nil
	attempts int
	due      time.Time // when all rows are to be computed for that
}

// inputState is what the sources of the inputs say in a snapshot.
type inputState struct {
	initialized bool
	incomplete  []string
}

func (d *Deriver[Out, Key]) begin() *deriving[Out, Key] {
	db := d.out.lock.db
	r := &deriving[Out, Key]{
		Deriver: d,
		db:      db,
		dirty:   map[string]Key{},
		held:    map[string]Key{},
		whole:   true,
		failed: failures[Key]{
			byKey: map[string]*failure[Key]{},
			pause: backoff{d.spec.MinBackoff, d.spec.MaxBackoff},
		},
		versions: make([]tableVersion, len(d.spec.Inputs)),
	}
	from := db.ReadTxn()
	for _, input := range d.spec.Inputs {
		r.feeds = append(r.feeds, input.open(from))
	}
	for _, state := range d.out.Sources(from) {
		if state.Name == d.source.name {
			r.declared = state
		}
	}
	return r
}

func (r *deriving[Out, Key]) close() {
	for _, f := range r.feeds {
		f.close()
	}
}

func (r *deriving[Out, Key]) loop(ctx context.Context) error {
	for {
		now := r.db.ReadTxn()
		err := r.collect(now)
		if err == nil {
			err = r.settle(ctx, now)
		}
		if err == nil {
			err = r.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// collect finds out which keys have to be computed.
func (r *deriving[Out, Key]) collect(now ReadTxn) error {
	for _, input := range r.spec.Inputs {
		if input.table.lockable().droppedIn(now.snapshot()) {
			return &TableError{Table: input.table.Name(), Err: ErrDropped}
		}
	}
	if r.unknown.err != nil && !r.unknown.due.After(time.Now()) {
		r.whole = true
	}
	if !r.whole {
		r.collectChanges(now)
	}
	if r.whole {
		r.collectAll(now)
	}
	r.inputs = r.stateOf(now)
	if r.inputs.initialized && len(r.inputs.incomplete) == 0 {
		maps.Copy(r.dirty, r.held)
	}
	r.failed.addDue(r.dirty, time.Now())
	return nil
}

func (r *deriving[Out, Key]) collectChanges(now ReadTxn) {
	before := r.before(now)
	for _, f := range r.feeds {
		if !f.changes(before, now, r) {
			r.whole = true
		}
	}
}

// before is now with the inputs as they were dealt with last. Their versions
// alone are kept, so that nothing else is kept from being forgotten.
func (r *deriving[Out, Key]) before(now ReadTxn) ReadTxn {
	before := *now.snapshot()
	before.versions = slices.Clone(before.versions)
	for i, input := range r.spec.Inputs {
		before.versions[input.table.lockable().slot] = r.versions[i]
	}
	return &before
}

// collectAll marks what the inputs yield and what the output has.
func (r *deriving[Out, Key]) collectAll(now ReadTxn) {
	r.unknown.err = nil
	for _, f := range r.feeds {
		f.skip(now)
		f.all(now, r)
	}
	for row := range r.out.All(now) {
		r.key.keys(row, func(key Key) bool {
			r.mark(key)
			return true
		})
	}
	if r.unknown.err == nil {
		r.unknown.attempts = 0
	}
}

// mark is for the feeds.
func (r *deriving[Out, Key]) mark(key Key) {
	encoded := r.key.Query(key).Encoded()
	r.dirty[encoded] = key
	r.failed.affected(encoded)
}

// unmapped is for the feeds.
func (r *deriving[Out, Key]) unmapped(err error) {
	r.report(err)
	now := time.Now()
	if r.unknown.err == nil {
		r.unknown.err = err
		r.unknown.attempts++
		r.unknown.due = now.Add(r.failed.pause.after(r.unknown.attempts))
	}
	if soon := now.Add(r.failed.pause.after(1)); !r.whole && soon.Before(r.unknown.due) {
		r.unknown.due = soon
	}
}

func (r *deriving[Out, Key]) stateOf(now ReadTxn) inputState {
	state := inputState{initialized: true}
	for _, f := range r.feeds {
		initialized, incomplete := f.state(now)
		state.initialized = state.initialized && initialized
		state.incomplete = append(state.incomplete, incomplete...)
	}
	return state
}

// holdsDeletes says whether the absence of a row does not mean that it is not
// wanted: the inputs have not begun, or all rows are compared while some of an
// input may be missing.
func (r *deriving[Out, Key]) holdsDeletes() bool {
	return !r.inputs.initialized || r.whole && len(r.inputs.incomplete) > 0
}

// reason is why the output is incomplete, or empty.
func (r *deriving[Out, Key]) reason() string {
	reasons := slices.Clone(r.inputs.incomplete)
	if r.unknown.err != nil {
		reasons = append(reasons, r.unknown.err.Error())
	}
	if failed := r.failed.reason(); failed != "" {
		reasons = append(reasons, failed)
	}
	return strings.Join(reasons, "; ")
}

// wait returns when an input has changed or a retry is due, or with ctx's error.
func (r *deriving[Out, Key]) wait(ctx context.Context) error {
	cases := make([]reflect.SelectCase, 0, len(r.feeds)+2)
	add := func(ch any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)})
	}
	add(ctx.Done())
	for _, f := range r.feeds {
		add(f.watch())
	}
	if due, waiting := r.nextRetry(); waiting {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		add(timer.C)
	}
	reflect.Select(cases)
	return ctx.Err()
}

func (r *deriving[Out, Key]) nextRetry() (due time.Time, waiting bool) {
	due, waiting = r.failed.next()
	if r.unknown.err != nil && (!waiting || r.unknown.due.Before(due)) {
		return r.unknown.due, true
	}
	return due, waiting
}

// report tells of a failure.
func (r *deriving[Out, Key]) report(err error) {
	var panicked *panicError
	if errors.As(err, &panicked) {
		r.db.logger.Error("A function of a derivation panicked", slog.Any("error", err), slog.String("stack", string(panicked.stack)))
	}
	if r.spec.OnError == nil {
		return
	}
	if err := guarded(func() error { r.spec.OnError(err); return nil }); err != nil {
		r.db.logger.Error("OnError of a derivation panicked", slog.String("table", r.out.Name()), slog.Any("error", err))
	}
}
