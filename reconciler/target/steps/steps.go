// Package steps lets Update and Diff of a target share one comparison: what
// differs is a list of steps, which Update takes and Diff shows.
package steps

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/reconciler"
)

// Step is a change that is due. Do makes it; it is nil if an earlier step
// makes this change, too.
type Step struct {
	reconciler.Change
	Do func() error
}

// Field returns a step that changes a field from is to want, or no
// step if they are equal.
func Field[T comparable](name string, is, want T, do func() error) []Step {
	if is == want {
		return nil
	}
	return []Step{{Change: reconciler.Change{Field: name, Is: text(is), Want: text(want)}, Do: do}}
}

func text(value any) string { return fmt.Sprint(value) }

// Take takes the steps in order. It stops at the first error, or when ctx ends.
func Take(ctx context.Context, steps []Step) (reconciler.Result, error) {
	for i, step := range steps {
		if step.Do == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return reconciler.Result{Changed: i > 0}, err
		}
		if err := step.Do(); err != nil {
			return reconciler.Result{Changed: i > 0}, err
		}
	}
	return reconciler.Result{Changed: len(steps) > 0}, nil
}

// Changes returns what the steps would change.
func Changes(steps []Step) []reconciler.Change {
	changes := make([]reconciler.Change, len(steps))
	for i, step := range steps {
		changes[i] = step.Change
	}
	return changes
}
