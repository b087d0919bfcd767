package lifecycle

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

// hook is an appended hook and its state.
type hook struct {
	cell.Hook
	name    string
	entered bool   // OnStart has returned, so OnStop is due; used by the goroutine that starts or stops
	closing func() // set for a dynamic hook, which has its own stop order; nil for others
	report  Report // guarded by the lifecycle's mu
}

// during returns the context of a call.
func (h *hook) during(ctx context.Context, action string) (context.Context, context.CancelFunc) {
	if h.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("%s deadline of %v of the hook: %w", action, h.Timeout, context.DeadlineExceeded))
}

// newHook returns a hook of a module, appended at a position.
func newHook(owner cell.FullModuleID, h cell.Hook, at description.Position) *hook {
	name := h.Name
	if name == "" {
		name = functionName(h.OnStart, h.OnStop)
	}
	return &hook{
		Hook: h, name: fmt.Sprintf("%s of module %q (%s)", name, owner, at),
		report: Report{Name: name, Module: owner, Location: at.String()},
	}
}

// functionName returns the name of the first non-nil function.
func functionName(fns ...func(context.Context) error) string {
	for _, fn := range fns {
		if fn != nil {
			name, _ := description.Function(reflect.ValueOf(fn))
			return strings.TrimSuffix(name, "-fm")
		}
	}
	return "without functions"
}
