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

// Reloads are what a started hive does when Run gets a SIGHUP. It is injectable and safe for concurrent use.
//
// First the settings are read again, from the same flags, environment and file, and validated. A setting does not change while
// the hive runs: those that have changed are named in the log and in the health of "settings", and take effect at the next
// start. Settings that could not be started with degrade that health. Then, in either case, the functions that
// modules have added are called.
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

// Add has fn called at each reload, in the order of the calls of Add. Its error is logged under the name. ctx ends when the hive is
// to stop; fn should return soon.
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

// settingsHealth is the id under which reloads report.
const settingsHealth = "settings"

// reload does what Reloads says.
func (h *Hive) reload(ctx context.Context) {
	logger := h.options.Logger
	logger.Info("Reloading: settings and all that is followed are read again")
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
		logger.Error("Health of the settings", "error", err)
	}
	for _, r := range h.reloads.all() {
		if err := <-guard.Go(func() error { return r.fn(ctx) }); err != nil {
			logger.Error("Reload has failed", "of", r.name, "error", err)
		}
	}
}

// report keeps the health as the settings were when they were read last.
func (r *Reloads) report(changed []string, wrong error) error {
	if r.registry == nil {
		return errors.New("nothing in the hive has health")
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
