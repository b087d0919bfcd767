package symlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// target makes symbolic links. The ones with a record are its own.
type target struct {
	reconciler.NoPrune[Symlink] // it is an Observer
	records                     *ownership.Records[record]
}

// record is empty: its presence says that the link is the agent's.
type record struct{}

var (
	_ reconciler.Target[Symlink]   = (*target)(nil)
	_ reconciler.Observer[Symlink] = (*target)(nil)
	_ reconciler.Differ[Symlink]   = (*target)(nil)
)

// newTarget must not write anything, because plan -f calls it, too.
func newTarget(owned *ownership.Store) (reconciler.Target[Symlink], error) {
	records, err := ownership.NewLastingRecords[record](owned, "symlink")
	return &target{records: records}, err
}

// read returns where a link leads, or an empty string if there is none.
func read(path string) (string, error) {
	to, err := os.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	case errors.Is(err, syscall.EINVAL):
		return "", fmt.Errorf("%s is not a symbolic link; it is left alone", path)
	}
	return to, err
}

// steps returns the steps that Update takes and Diff shows.
func (t *target) steps(ctx context.Context, row Symlink) ([]steps.Step, error) {
	row, err := row.Normalized()
	if err != nil {
		return nil, reconciler.Terminal(err) // trying again does not help
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	is, err := read(row.Path)
	if err != nil {
		return nil, err
	}
	if _, ours := t.records.Get(row.Path); is != "" && !ours {
		return nil, fmt.Errorf("%s is somebody else's link to %s; it is left alone", row.Path, is)
	}
	return steps.Field("to", is, row.To, func() error { return t.set(row, is) }), nil
}

// set makes a link. It stores the record first, so that after a crash the link is known to be ours.
func (t *target) set(row Symlink, is string) error {
	if err := t.records.Put(row.Path, record{}); err != nil {
		return err
	}
	if is != "" {
		if err := os.Remove(row.Path); err != nil {
			return err
		}
	}
	return os.Symlink(row.To, row.Path)
}

// Init implements reconciler.Target: it drops the records of links that are gone.
func (t *target) Init(ctx context.Context) error {
	for path := range t.records.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if is, err := read(path); is != "" || err != nil {
			continue
		}
		if err := t.records.Remove(path); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Update implements reconciler.Target.
func (t *target) Update(ctx context.Context, _ statedb.ReadTxn, row Symlink) (reconciler.Result, error) {
	due, err := t.steps(ctx, row)
	if err != nil {
		return reconciler.Result{}, err
	}
	return steps.Take(ctx, due)
}

// Diff implements reconciler.Differ.
func (t *target) Diff(ctx context.Context, _ statedb.ReadTxn, row Symlink) ([]reconciler.Change, error) {
	due, err := t.steps(ctx, row)
	return steps.Changes(due), err
}

// Delete implements reconciler.Target.
func (t *target) Delete(ctx context.Context, _ statedb.ReadTxn, row Symlink) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, ours := t.records.Get(row.Path); !ours {
		return nil
	}
	if is, err := read(row.Path); err == nil && is != "" {
		if err := os.Remove(row.Path); err != nil {
			return err
		}
	}
	return t.records.Remove(row.Path)
}

// Observe implements reconciler.Observer.
func (t *target) Observe(ctx context.Context) iter.Seq2[Symlink, error] {
	return func(yield func(Symlink, error) bool) {
		for path := range t.records.All() {
			if err := ctx.Err(); err != nil {
				yield(Symlink{}, err)
				return
			}
			if is, err := read(path); err == nil && is != "" && !yield(Symlink{Path: path, To: is}, nil) {
				return
			}
		}
	}
}
