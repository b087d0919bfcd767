package applications

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

// withFx sends a beat every second, with a logger of its own and a goroutine that ends before the store is closed.
func withFx() fx.Option {
	return fx.Module("beat",
		fx.Provide(newBeat, fx.Private),
		fx.Decorate(func(l *slog.Logger) *slog.Logger { return l.With("module", "beat") }),
		fx.Invoke(func(l fx.Lifecycle, b *beat) {
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			l.Append(fx.Hook{
				OnStart: func(context.Context) error {
					running.Go(func() { every(ctx, time.Second, b.send) })
					return nil
				},
				OnStop: func(context.Context) error {
					cancel()
					running.Wait()
					return nil
				},
			})
		}),
	)
}

// withHive does the same. The logger is there already; a failed or panicking run is logged, and shows in the module's health.
func withHive() cell.Cell {
	return cell.Module("beat", "a beat every second",
		cell.ProvidePrivate(newBeat),
		cell.Invoke(func(jobs job.Group, b *beat) error {
			return jobs.Add(job.Timer("send", func(ctx context.Context, _ health.Health) error {
				return b.send(ctx)
			}, time.Second))
		}),
	)
}

type store struct {
	beats chan struct{}

	mu    sync.Mutex
	notes []string
}

func (s *store) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

func (s *store) open(context.Context) error  { s.note("opened"); return nil }
func (s *store) close(context.Context) error { s.note("closed"); return nil }

func (s *store) twoBeats() error {
	<-s.beats
	<-s.beats
	return nil
}

type beat struct {
	store  *store
	logger *slog.Logger
}

func newBeat(s *store, l *slog.Logger) *beat { return &beat{store: s, logger: l} }

func (b *beat) send(context.Context) error {
	b.store.note("beat")
	b.store.beats <- struct{}{}
	b.logger.Info("sent")
	return nil
}

func every(ctx context.Context, d time.Duration, fn func(context.Context) error) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = fn(ctx) // there is nobody to be told
		}
	}
}

// The guide to the hive shows both modules.
func TestTheModulesOfBothFrameworksDoTheSame(t *testing.T) {
	for name, run := range map[string]func(context.Context, *store) error{"fx": beatWithFx, "hive": beatWithHive} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{beats: make(chan struct{})}
				if err := run(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				if want := []string{"opened", "beat", "beat", "closed"}; !slices.Equal(s.notes, want) {
					t.Errorf("got %v, want %v", s.notes, want)
				}
			})
		})
	}
}

func beatWithFx(ctx context.Context, s *store) error {
	app := fx.New(fx.NopLogger, withFx(), fx.Supply(slog.New(slog.DiscardHandler)), fx.Provide(func(l fx.Lifecycle) *store {
		l.Append(fx.Hook{OnStart: s.open, OnStop: s.close})
		return s
	}))
	return errors.Join(app.Start(ctx), s.twoBeats(), app.Stop(ctx))
}

func beatWithHive(ctx context.Context, s *store) error {
	options := hive.Options{Name: "compared", Logger: slog.New(slog.DiscardHandler)}
	h, err := hive.New(options, withHive(), cell.Provide(func(l cell.Lifecycle) *store {
		l.Append(cell.Hook{OnStart: s.open, OnStop: s.close})
		return s
	}))
	if err != nil {
		return err
	}
	return errors.Join(h.Start(ctx), s.twoBeats(), h.Stop(ctx))
}
