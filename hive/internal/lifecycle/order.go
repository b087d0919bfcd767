package lifecycle

import (
	"slices"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

// Dynamic is the lifecycle of a module that can have what is added while running: those of For are.
type Dynamic interface {
	cell.Lifecycle
	// AppendDynamic appends the hook of something that grows while it runs. It is started like others, or at once if the start is over.
	// It is stopped before all that its module depends on: that was appended before the last function of the module returned,
	// or by the last of its start hooks that append something. Closing, which must not block, is called when the stop begins, before all stop hooks; at once
	// if that has been.
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

// Reached notes that a function of a module has returned: what there is by now may be what the module depends on. It is safe for
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

// stopOrder returns the hooks in the order in which they stop, and notes that no others can be added.
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

// patience is how long hooks are waited for when their context is done: for all of them together once the start or the stop
// itself is over.
type patience struct {
	until time.Time
}

// left is how long the hook that is running may take. It is called when its context is done.
func (p *patience) left(over bool) time.Duration {
	if !over {
		return grace
	}
	if p.until.IsZero() {
		p.until = time.Now().Add(grace)
	}
	return max(time.Until(p.until), moment)
}
