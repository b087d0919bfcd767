package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// idle measures what the agent uses while nothing happens.
func (t *trial) idle(ctx context.Context, a *agent) error {
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	before, err := a.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, t.Idle); err != nil {
		return err
	}
	after, err := a.usage()
	if err != nil {
		return err
	}
	if err := t.note(idleCPU, ours, 100*float64(after.cpu-before.cpu)/float64(time.Since(began))); err != nil {
		return err
	}
	return t.note(idleMemory, ours, after.resident)
}

// startOver kills the agent, starts it again, and measures how long it takes to find
// that all is right. The kernel tells whether it changes a route meanwhile.
func (t *trial) startOver(ctx context.Context, a *agent, m many) error {
	err := t.phase(ctx, started, parsing, func(ctx context.Context) (float64, error) {
		return t.parse(ctx, keptDocument+cableDocument+m.document)
	})
	if err != nil {
		return err
	}
	var notes atomic.Int64
	stop, err := watchRoutes(func(routeNote) { notes.Add(1) })
	if err != nil {
		return err
	}
	err = t.phase(ctx, started, ours, func(ctx context.Context) (float64, error) { return m.startOver(ctx, a) })
	if err == nil {
		err = pause(ctx, quiet)
	}
	if err := errors.Join(err, stop()); err != nil {
		return fmt.Errorf("start over: %w", err)
	}
	return t.note(startNotes, ours, float64(notes.Load()))
}

func (m many) startOver(ctx context.Context, a *agent) (float64, error) {
	a.kill()
	began := time.Now()
	if err := a.start(); err != nil {
		return 0, err
	}
	done, err := a.done(ctx, m.expected(m.n))
	if err != nil {
		return 0, err
	}
	return done.Sub(began).Seconds(), m.check(m.n)
}
