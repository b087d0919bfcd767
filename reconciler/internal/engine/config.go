package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/statedb"
)

// Config tunes a reconciler. The zero value of each field stands for its default.
type Config struct {
	// FullInterval is the time between full passes, ±10 %: a second or more. Default
	// 30 minutes; negative: only at start, on demand and when changes were lost.
	FullInterval time.Duration
	// MinBackoff and MaxBackoff bound the time before a failed operation is tried
	// again: the first doubles with every attempt up to the second, ±20 %.
	// Defaults 100 ms and 1 minute.
	MinBackoff, MaxBackoff time.Duration
	// Backoff, if set, takes their place: it returns the time before the next try after
	// so many failures in a row. [RetryAfter] and [Terminal] come before it. If it returns
	// no positive time, or panics, the default is taken. It is called from one goroutine,
	// returns soon and does not use the reconciler.
	Backoff func(attempts int) time.Duration
	// OperationTimeout ends the context of an operation. Default 30 s.
	OperationTimeout time.Duration
	// StopTimeout is how long operations may go on when the reconciler is told to
	// stop, before their contexts end. Default 5 s.
	StopTimeout time.Duration
	// SourceTimeout is how long sources of the table are waited for that have not
	// delivered their first listing: no operation runs meanwhile. Then rows are
	// updated and deleted without them, and, as for a source that is incomplete, no
	// surplus is removed until they have delivered. Default: for ever.
	SourceTimeout time.Duration
	// Limits can be changed later, see [Reconciler.SetLimits].
	Limits Limits
	// Debounce is how long a changed row has to stay as it is before it is run,
	// though no longer than MaxDebounce after the first change. Defaults: not at
	// all, and ten times Debounce.
	Debounce, MaxDebounce time.Duration
	// Workers is how many operations run at once, on different rows. Default 1;
	// at most 65,536.
	Workers int
	// DeleteLimit holds deletes when they are too many at once, surplus included,
	// unless the target cannot observe: what Prune removes is not counted.
	DeleteLimit ChangeLimit
	// UpdateLimit does the same for updates of rows that were applied before, since
	// the start. The zero value: there is no limit. With one every changed row is
	// queued by itself, which takes more time and memory.
	UpdateLimit ChangeLimit
	// Drift says what is done about rows that differ from what Params.Observed
	// tells of them.
	Drift Drift
}

// The bounds of Config.Workers and Config.FullInterval. Full passes that follow each other
// without a pause leave the target no rest: a shorter interval is a mistake, such as a number
// without its unit.
const (
	maxWorkers      = 1 << 16
	minFullInterval = time.Second
)

func (c Config) withDefaults() Config {
	setDefault(&c.FullInterval, 30*time.Minute)
	setDefault(&c.MinBackoff, 100*time.Millisecond)
	setDefault(&c.MaxBackoff, max(time.Minute, c.MinBackoff))
	setDefault(&c.OperationTimeout, 30*time.Second)
	setDefault(&c.StopTimeout, 5*time.Second)
	c.Limits = *c.Limits.withDefaults()
	setDefault(&c.MaxDebounce, max(c.Debounce, 10*min(c.Debounce, math.MaxInt64/10)))
	setDefault(&c.Workers, 1)
	c.DeleteLimit = c.DeleteLimit.WithDefaults()
	c.UpdateLimit.Off = c.UpdateLimit.Off || c.UpdateLimit == ChangeLimit{}
	c.UpdateLimit = c.UpdateLimit.WithDefaults()
	c.Drift = c.Drift.WithDefaults(c.MaxBackoff)
	return c
}

// longer returns the sum of two durations, or the longest one if that is less.
func longer(a, b time.Duration) time.Duration { return a + min(b, math.MaxInt64-a) }

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

func (c Config) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"MinBackoff", c.MinBackoff},
		{"MaxBackoff", c.MaxBackoff},
		{"OperationTimeout", c.OperationTimeout},
		{"StopTimeout", c.StopTimeout},
		{"SourceTimeout", c.SourceTimeout},
		{"Debounce", c.Debounce},
		{"MaxDebounce", c.MaxDebounce},
	} {
		if d.value < 0 {
			return fmt.Errorf("Config.%s is %v: it must be positive, or 0 for the default", d.name, d.value)
		}
	}
	switch {
	case c.Backoff != nil && c.MinBackoff != 0:
		return fmt.Errorf("Config.MinBackoff is %v: it has no meaning with Config.Backoff, which takes its place", c.MinBackoff)
	case c.Backoff != nil && c.MaxBackoff != 0:
		return fmt.Errorf("Config.MaxBackoff is %v: it has no meaning with Config.Backoff, which takes its place", c.MaxBackoff)
	case c.FullInterval > 0 && c.FullInterval < minFullInterval:
		return fmt.Errorf("Config.FullInterval is %v: it must be at least %v, 0 for the default, or negative for no full passes but the first", c.FullInterval, minFullInterval)
	case c.MaxBackoff != 0 && c.MaxBackoff < c.MinBackoff:
		return fmt.Errorf("Config.MaxBackoff %v is less than Config.MinBackoff %v", c.MaxBackoff, c.MinBackoff)
	case c.MaxDebounce != 0 && c.MaxDebounce < c.Debounce:
		return fmt.Errorf("Config.MaxDebounce %v is less than Config.Debounce %v", c.MaxDebounce, c.Debounce)
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("Config.Workers is %d: it must be positive and at most %d, or 0 for the default", c.Workers, maxWorkers)
	}
	return errors.Join(c.Limits.check(), c.DeleteLimit.Check("Config.DeleteLimit"), c.UpdateLimit.Check("Config.UpdateLimit"), c.Drift.Check())
}

// Params is what an [Engine] is made of. DB, Table and Target are required.
type Params struct {
	Name      string // default: that of the table
	DB        *store.DB
	Table     *store.Table
	Target    Target
	Config    Config
	Related   []Related
	DependsOn []Dependency
	Group     *Group
	Observed  *Observation // nil: rows are compared with nothing
	// RefreshInterval is how long after a row was applied it is applied again; not positive:
	// it is not. It may be nil.
	RefreshInterval func(row *store.Entry) time.Duration
	NotDone         *statedb.RWTable[NotDone]
	Origin          func(table, key string) string
	Logger          *slog.Logger
	Health          Health
}

// Health is told how a reconciler is. Calls come from one goroutine, and only
// when something has changed.
type Health interface {
	OK(message string)
	Degraded(message string, err error)
	Stopped(message string)
}

// withDefaults checks p and fills in what was left out.
func (p Params) withDefaults() (Params, error) {
	if p.Table != nil {
		setDefault(&p.Name, p.Table.Name())
	}
	switch {
	case p.DB == nil:
		return p, errors.New("Params.DB is not set")
	case p.Table == nil:
		return p, errors.New("Params.Table is not set")
	case p.Target.Update == nil:
		return p, errors.New("Params.Target is not set")
	case p.Target.Status == nil || p.Target.SetStatus == nil:
		return p, errors.New("the status field needs Get and Set")
	case !p.Table.Amendable():
		return p, fmt.Errorf("table %s keeps no status: declare it with reconciler.Reconciled(schema)", p.Table.Name())
	}
	if err := errors.Join(p.Config.check(), p.checkRelated(), p.checkDependencies(), p.checkObserved()); err != nil {
		return p, err
	}
	if err := p.checkTables(); err != nil {
		return p, err
	}
	p.Config = p.Config.withDefaults()
	setDefault(&p.Logger, slog.New(slog.DiscardHandler))
	if p.Health == nil {
		p.Health = noHealth{}
	}
	return p, nil
}

func (p Params) checkTables() error {
	tables := append([]*store.Table{p.Table}, p.relatedTables()...)
	if p.NotDone != nil {
		tables = append(tables, p.NotDone.Untyped())
	}
	for _, table := range tables {
		if !p.DB.Owns(table) {
			return fmt.Errorf("Params.DB: %w", &store.TableError{Table: table.Name(), Err: store.ErrForeignTable})
		}
	}
	return nil
}

type noHealth struct{}

func (noHealth) OK(string)              {}
func (noHealth) Degraded(string, error) {}
func (noHealth) Stopped(string)         {}
