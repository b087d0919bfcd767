package lifecycle

import (
	"slices"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

// Dynamic is a lifecycle that accepts hooks while it is running.
type Dynamic interface {
	cell.Lifecycle
	// AppendDynamic appends a hook for something that grows while it runs. The hook starts like others, or at once if the start is
	// over. It stops before everything its module may depend on: all hooks appended before the last function of the module
	// returned, or by the module's own start hooks. closing must not block; it is called when the stop begins, before all stop
	// hooks, or at once if the stop has begun.
	AppendDynamic(h cell.Hook, closing func())
}

// AppendDynamic implements Dynamic.
func (o *owned) AppendDynamic(h cell.Hook, closing func()) {
	added := newHook(o.owner, h, description.Caller())
	added.closing = closing
	o.lifecycle.appendDynamic(added)
}

func (l *Lifecycle) appendDynamic(h *hook) {
	l.mu.Lock()
	state := l.state
	if state <= up {
		l.hooks = append(l.hooks, h)
		h.entered = state == up
	}
	l.mu.Unlock()
	switch {
	case state > up:
		h.closing()
	case state == up && h.OnStart != nil:
		l.adopt(h)
	}
}

// Reached records that a function of a module has returned: the module may depend on any hook appended so far. It is safe for
// concurrent use.
func (l *Lifecycle) Reached(owner cell.FullModuleID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[owner] = len(l.hooks)
}

func (l *Lifecycle) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hooks)
}

// stopOrder returns the hooks in the order in which they stop.
func (l *Lifecycle) stopOrder() []*hook {
	l.mu.Lock()
	defer l.mu.Unlock()
	dynamic := make(map[int][]*hook) // by the number of hooks that they stop before
	for i, h := range l.hooks {
		if h.closing != nil {
			end := max(l.ends[h.report.Module], i+1)
			dynamic[end] = append(dynamic[end], h)
		}
	}
	order := make([]*hook, 0, len(l.hooks))
	for i := len(l.hooks); i > 0; i-- {
		for _, h := range slices.Backward(dynamic[i]) {
			order = append(order, h)
		}
		if h := l.hooks[i-1]; h.closing == nil {
			order = append(order, h)
		}
	}
	return order
}
