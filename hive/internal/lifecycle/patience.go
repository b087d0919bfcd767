package lifecycle

import (
	"context"
	"sync"
	"time"
)

const (
	// grace is how long a hook may take to return once its context is done. After the deadline of a stop, all hooks share it.
	grace = time.Second
	// moment is how long each further hook may take after that.
	moment = 10 * time.Millisecond
	// margin is how much sooner the grace ends for a lifecycle that stops within a hook of another one, so that its overdue hooks are
	// named rather than that hook.
	margin = 100 * time.Millisecond
)

// patience limits the wait for hooks whose context is done. Once the deadline of the whole start or stop has passed, all hooks share
// one limit, and so do the hooks of lifecycles that stop within a hook.
type patience struct {
	ctx    context.Context //nolint:containedctx // of the whole start or stop
	within *patience       // of the lifecycle whose hook the call comes from; nil if there is none

	mu    sync.Mutex
	until time.Time
}

type patienceKey struct{}

func newPatience(ctx context.Context) *patience {
	within, _ := ctx.Value(patienceKey{}).(*patience)
	return &patience{ctx: ctx, within: within}
}

// context returns a context for a hook.
func (p *patience) context() context.Context { return context.WithValue(p.ctx, patienceKey{}, p) }

// left returns how much longer to wait for the running hook, whose context is done.
func (p *patience) left() time.Duration {
	if p.ctx.Err() == nil { // it was the hook's own deadline
		return grace
	}
	return max(time.Until(p.end()), moment)
}

func (p *patience) end() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.IsZero() {
		return p.until
	}
	p.until = time.Now().Add(grace)
	if p.within != nil {
		if p.within.ctx.Err() != nil {
			p.until = p.within.end()
		}
		p.until = p.until.Add(-margin)
	}
	return p.until
}
