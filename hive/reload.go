package hive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/guard"
)

// Reloads holds the functions that a started hive calls when Run receives SIGHUP. It is injectable and safe for concurrent use.
//
// A reload first reads the settings again, from the same flags, environment and file, and validates them. Settings do not change
// while the hive runs: changed ones are named in the log and in the health of "settings", and take effect at the next start.
// Invalid settings degrade that health. In either case, the reload then calls the functions that modules have added.
type Reloads struct {
	registry *health.Registry // set when it is constructed

	mu        sync.Mutex
	functions []reload
	health    health.Health
}

type reload struct {
	name string
	fn   func(ctx context.Context) error
}

// Add registers fn to be called at each reload, in the order of registration. Its error is logged with the name. ctx is canceled
// when the hive stops; fn should return soon.
func (r *Reloads) Add(name string, fn func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.functions = append(r.functions, reload{name, fn})
}

func (r *Reloads) all() []reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.functions[:len(r.functions):len(r.functions)]
}

// settingsHealth is the id of the health scope for reloads.
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
		if err := <-guard.Go(func() error { return r.fn(ctx) }); err != nil {
			logger.Error("Reload failed", "of", r.name, "error", err)
		}
	}
}

// report sets the health of the settings as last read.
func (r *Reloads) report(changed []string, wrong error) error {
	if r.registry == nil {
		return errors.New("the hive has no health registry")
	}
	if r.health == nil {
		scope, err := r.registry.Scope(settingsHealth)
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
