package hive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/statehive/statehive/hive/health"
)

// Reloads holds the functions that a started hive calls when Run receives SIGHUP. It is injectable and safe for concurrent use.
//
// A reload first reads the settings again, from the same flags, environment and file, and validates them. Settings do not change
// while the hive runs: changed ones are named in the log and in the health of "settings", and take effect at the next start.
// Invalid settings degrade that health. In either case, the reload then calls the functions that modules have added.
type Reloads struct {
	registry *health.Registry // set when it is constructed, with healthID
	healthID string

	mu        sync.Mutex
	functions []*reload
	health    health.Health
}

type reload struct {
	name    string
	fn      func(ctx context.Context) error
	running atomic.Bool
}

// Add registers fn to be called at each reload, in the order of registration. Its error is logged with the name. ctx is done after
// the start timeout, or when the hive stops; a call that does not return soon after that is left behind, and fn is not called again
// until it returns.
func (r *Reloads) Add(name string, fn func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.functions = append(r.functions, &reload{name: name, fn: fn})
}

func (r *Reloads) all() []*reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.functions[:len(r.functions):len(r.functions)]
}

// settingsHealth is the id of the health scope for reloads, quoted if a module has it.
const settingsHealth = "settings"

// reload performs a reload, as described at Reloads.
func (h *Hive) reload(ctx context.Context) {
	logger := h.options.Logger
	logger.Info("Reloading")
	bounded, cancel := h.bounded(ctx, "reload", h.options.StartTimeout)
	defer cancel()
	changed, err := h.graph.Reread(h.sources(bounded))
	switch {
	case err != nil:
		logger.Error("The settings cannot be used: those of the start stay in force, and the next start would fail", "error", err)
	case len(changed) > 0:
		logger.Warn("Settings have changed: they take effect at the next start", "settings", changed)
	default:
		logger.Info("No setting has changed")
	}
	if err := h.reloads.report(changed, err); err != nil {
		logger.Error("Cannot report the health of the settings", "error", err)
	}
	for _, r := range h.reloads.all() {
		if err := h.callReload(ctx, r); err != nil {
			logger.Error("Reload failed", "of", r.name, "error", err)
		}
	}
}

// callReload calls a function for a limited time.
func (h *Hive) callReload(ctx context.Context, r *reload) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("not called: its last call has not returned")
	}
	ctx, cancel := h.bounded(ctx, "reload", h.options.StartTimeout)
	defer cancel()
	return h.await(ctx, "reload of "+r.name, func() error {
		defer r.running.Store(false)
		return r.fn(ctx)
	})
}

// report sets the health of the settings as last read.
func (r *Reloads) report(changed []string, wrong error) error {
	if r.registry == nil {
		return errors.New("the hive has no health registry")
	}
	if r.health == nil {
		scope, err := r.registry.Scope(r.healthID)
		if err != nil {
			return err
		}
		r.health = scope
	}
	switch {
	case wrong != nil:
		r.health.Degraded("the settings cannot be used, those of the start are in force", wrong)
	case len(changed) > 0:
		r.health.OK(fmt.Sprintf("changed since the start, in force after the next one: %s", strings.Join(changed, ", ")))
	default:
		r.health.OK("those of the start are in force")
	}
	return nil
}
