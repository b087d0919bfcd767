package engine

import (
	"context"
	"errors"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// errThere is returned by Forget.
var errThere = errors.New("is in the table, and only a delete can be forgotten")

// Forget gives up the pending delete of a row, by its primary key as text: it is
// neither tried again nor shown any longer. One that is running is the last. What
// the target has of the row stays there, unless a full pass finds it surplus. It
// is logged. [UnknownKeyError] when no such delete is pending, [ErrNotRunning]
// when the reconciler does not run.
func (r *Engine) Forget(ctx context.Context, key string) error {
	var result error
	if err := r.call(ctx, func(l *loop) { result = l.forget(key) }); err != nil {
		return err
	}
	return result
}

func (l *loop) forget(key string) error {
	it := l.deletingItem(key)
	if it == nil {
		return l.r.whyNotDeleting(key, l)
	}
	lastError := ""
	if it.Err != nil {
		lastError = it.Err.Error()
	}
	l.r.p.Logger.Warn("delete is forgotten, as someone wished", "reconciler", l.r.p.Name, "key", key,
		"attempts", it.Attempts, "error", lastError)
	l.setDeleting(it, false)
	if it.Idle() {
		l.drop(it)
	}
	return nil
}

// deletingItem returns the pending delete of a row, or nil.
func (l *loop) deletingItem(key string) *workqueue.Item {
	for _, it := range l.queue.Items {
		if it.Deleting && l.r.p.Table.KeyText(it.Entry) == key {
			return it
		}
	}
	return nil
}

// forgotten says that an outcome is of a delete that was forgotten meanwhile.
func forgotten(out *pool.Task) bool {
	return out.Kind == pool.Delete && out.Err != nil && !out.Item.Deleting
}
