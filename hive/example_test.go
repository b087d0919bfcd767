package hive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

type database struct{ name string }

func openDatabase() (*database, error) { return nil, errors.New("there is none here") }

type route struct{ path string }

// storageResults offers several values at once, by name and as part of a group.
type storageResults struct {
	cell.Out

	Primary *database `name:"primary"`
	Route   route     `group:"routes"`
}

// serverParams asks for several values at once. Every module can contribute to a group; the order is random.
type serverParams struct {
	cell.In

	Primary *database `name:"primary"`
	Replica *database `name:"replica" optional:"true"` // nil if nothing provides it
	Routes  []route   `group:"routes"`
	Log     io.Writer // provided as an interface
}

func Example_values() {
	serve := func(p serverParams) {
		fmt.Fprintln(p.Log, p.Primary.name, p.Replica, p.Routes)
	}
	h, err := hive.New(hive.Options{Name: "example"},
		cell.Provide(func() storageResults {
			return storageResults{Primary: &database{name: "first"}, Route: route{path: "/tables"}}
		}),
		cell.Supply(cell.As[io.Writer](os.Stdout)),
		cell.Invoke(serve),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	runOnce(h)
	// Output: first <nil> [{/tables}]
}

// runOnce starts and stops a hive.
func runOnce(h *hive.Hive) {
	if err := h.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	if err := h.Stop(context.Background()); err != nil {
		fmt.Println(err)
	}
}

// A decorator that does not ask for the old value replaces it: openDatabase is not called.
func Example_replace() {
	storage := cell.Module("storage", "the database", cell.Provide(openDatabase))
	report := cell.Module("report", "a user of the database", cell.Invoke(func(d *database) { fmt.Println("using", d.name) }))
	h, err := hive.New(hive.Options{Name: "example"}, storage, report,
		cell.Decorate(func() *database { return &database{name: "a fake"} }),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	runOnce(h)
	// Output: using a fake
}

// newTerm makes a part of a module that runs only while this replica leads.
func newTerm(parts *hive.SubLifecycles) *hive.SubLifecycle {
	return parts.New("term", func(_ context.Context, scope hive.Scope) error {
		scope.Lifecycle.Append(cell.Hook{
			OnStart: func(context.Context) error { fmt.Println("lease taken"); return nil },
			OnStop:  func(context.Context) error { fmt.Println("lease returned"); return nil },
		})
		return scope.Jobs.Add(job.OneShot("lead", lead))
	})
}

func ExampleSubLifecycles() {
	h, err := hive.New(hive.Options{Name: "example", Logger: slog.New(slog.DiscardHandler)},
		cell.Module("leader", "works while it leads",
			cell.Provide(newTerm),
			cell.Invoke(func(*hive.SubLifecycle) {}), // the module makes it, though nothing in it needs it
		),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = errors.Join(h.Start(ctx), h.Invoke(func(term *hive.SubLifecycle) error {
		return errors.Join(term.Start(ctx), term.Stop(ctx), term.Start(ctx))
	}), h.Stop(ctx))
	fmt.Println(err)
	// Output:
	// lease taken
	// lease returned
	// lease taken
	// lease returned
	// <nil>
}

func lead(ctx context.Context, _ health.Health) error {
	<-ctx.Done()
	return nil
}

// cache is filled by a job.
type cache struct{ filled atomic.Bool }

// newCache contributes a condition as well: until the cache is filled, the application is not ready.
func newCache() (*cache, hive.ConditionOut) {
	c := &cache{}
	return c, hive.NewCondition("cache", func() []string {
		if c.filled.Load() {
			return nil
		}
		return []string{"its first listing"}
	})
}

func ExampleNewCondition() {
	h, err := hive.New(hive.Options{Name: "example", Logger: slog.New(slog.DiscardHandler)},
		cell.Provide(newCache),
		cell.Invoke(func(*cache) {}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = errors.Join(h.Start(ctx), h.Invoke(func(c *cache, r *hive.Readiness) {
		fmt.Println(r.Ready())
		c.filled.Store(true)
		fmt.Println(r.Ready())
	}), h.Stop(ctx))
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// false [cache: its first listing]
	// true []
}

// A job that has failed for good ends the application; Run returns its error.
func ExampleShutdowner() {
	serve := func(context.Context, health.Health) error { return errors.New("address already in use") }
	h, err := hive.New(hive.Options{Name: "example", Logger: slog.New(slog.DiscardHandler)},
		cell.Module("server", "answers requests", cell.Invoke(func(jobs job.Group, s hive.Shutdowner) error {
			return jobs.Add(job.OneShot("serve", serve, job.WithOnFailure(s.Shutdown)))
		})),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Run(context.Background()))
	// Output: address already in use
}
