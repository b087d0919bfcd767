package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/statedb"
)

// Config tunes a reconciler. The zero value of each field stands for its default.
type Config struct {
	// FullInterval is the time between full passes, ±10 %, at least a second. Default
	// 30 minutes. If it is negative, full passes run only at start, on demand and when
	// changes were lost.
	FullInterval time.Duration
	// MinBackoff and MaxBackoff bound the time before a failed operation is tried
	// again. It starts at MinBackoff and doubles with every attempt up to MaxBackoff, ±20 %.
	// Defaults 100 ms and 1 minute.
	MinBackoff, MaxBackoff time.Duration
	// Backoff, if set, replaces them: it returns the time before the next try after a number
	// of consecutive failures. [RetryAfter] and [Terminal] take precedence. If it panics or
	// does not return a positive duration, the default is used. It is called from one
	// goroutine, must return quickly and must not use the reconciler.
	Backoff func(attempts int) time.Duration
	// OperationTimeout ends the context of an operation. Default 30 s.
	OperationTimeout time.Duration
	// StopTimeout is how long running operations may take when the reconciler stops, before
	// their contexts end. Default 5 s.
	StopTimeout time.Duration
	// SourceTimeout is how long to wait for the first listings of the table's sources before
	// running any operation. After that, rows are updated and deleted without them, and, as
	// with an incomplete source, no orphans are removed until they have delivered.
	// Default: for ever.
	SourceTimeout time.Duration
	// Limits can be changed later, see [Reconciler.SetLimits].
	Limits Limits
	// Debounce is how long a changed row must stay unchanged before it runs, though it runs
	// MaxDebounce after the first change at the latest. Defaults: 0, and ten times Debounce.
	Debounce, MaxDebounce time.Duration
	// Workers is how many operations run concurrently, on different rows. Default 1;
	// at most 65,536.
	Workers int
	// DeleteLimit holds deletes, including those of orphans, when there are too many at once.
	// What Prune removes is not counted.
	DeleteLimit ChangeLimit
	// UpdateLimit holds updates of rows that have been applied since the start, when there
	// are too many at once. The zero value means no limit. With a limit every changed row is
	// queued individually, which takes more time and memory.
	UpdateLimit ChangeLimit
	// Drift configures how to handle rows that differ from Params.Observed.
	Drift Drift
}

// The bounds of Config.Workers and Config.FullInterval. A shorter interval would keep the
// target busy all the time; most likely the unit of the duration was forgotten.
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

// longer returns the sum of two durations, or the longest duration if that overflows.
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
		return fmt.Errorf("Config.MinBackoff is %v: it has no effect because Config.Backoff replaces it", c.MinBackoff)
	case c.Backoff != nil && c.MaxBackoff != 0:
		return fmt.Errorf("Config.MaxBackoff is %v: it has no effect because Config.Backoff replaces it", c.MaxBackoff)
	case c.FullInterval > 0 && c.FullInterval < minFullInterval:
		return fmt.Errorf("Config.FullInterval is %v: it must be at least %v, 0 for the default, or negative for no periodic full passes", c.FullInterval, minFullInterval)
	case c.MaxBackoff != 0 && c.MaxBackoff < c.MinBackoff:
		return fmt.Errorf("Config.MaxBackoff %v is less than Config.MinBackoff %v", c.MaxBackoff, c.MinBackoff)
	case c.MaxDebounce != 0 && c.MaxDebounce < c.Debounce:
		return fmt.Errorf("Config.MaxDebounce %v is less than Config.Debounce %v", c.MaxDebounce, c.Debounce)
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("Config.Workers is %d: it must be positive and at most %d, or 0 for the default", c.Workers, maxWorkers)
	}
	return errors.Join(c.Limits.check(), c.DeleteLimit.Check("Config.DeleteLimit"), c.UpdateLimit.Check("Config.UpdateLimit"), c.Drift.Check())
}

// Params are the parameters of an [Engine]. DB, Table and Target are required.
type Params struct {
	Name      string // default: the table's name
	DB        *store.DB
	Table     *store.Table
	Target    Target
	Config    Config
	Related   []Related
	DependsOn []Dependency
	// DeletedBefore name rows that are deleted after those of the table, as rows of DependsOn are.
	DeletedBefore []Dependency
	// DeletedAfter name rows that must not be pending when a row is deleted.
	DeletedAfter []Dependency
	// DeletesLast makes deletes wait for the updates that may replace what they remove: see [hold.DeletesLast].
	DeletesLast  bool
	RemovedFirst func(txn store.ReadTxn, row *store.Entry, yield func(store.Query) bool) // may be nil
	Removes      func(txn store.ReadTxn, row *store.Entry) *store.Entry                  // see [hold.DeletesLast]
	Replaces     Replaces                                                                // nil: no update does
	Group        *Group
	Memory       Memory       // nil: a restart forgets that deletes were held
	Observed     *Observation // nil: rows are compared with nothing
	// RefreshInterval returns the time after which a done row is applied again, if positive.
	// It may be nil.
	RefreshInterval func(row *store.Entry) time.Duration
	NotDone         *statedb.RWTable[NotDone]
	Origin          func(table, key string) string
	Logger          *slog.Logger
	Health          Health
}

// Health receives the health of a reconciler. Its methods are called from one goroutine, and
// only when something has changed.
type Health interface {
	OK(message string)
	Degraded(message string, err error)
	Stopped(message string)
}

// withDefaults returns p with its defaults, or an error if p is invalid.
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

// Limits can be changed while a reconciler runs.
type Limits struct {
	// RoundSize is how many changes are taken from the feed at a time. Default 1000.
	RoundSize int
	// Limiter bounds the rate of operations. If it is nil or its rate is [rate.Inf], there is
	// no bound; with a rate of 0 only the first burst runs. It may be changed through its own
	// methods at any time.
	Limiter *rate.Limiter
}

func (l Limits) check() error {
	if l.RoundSize < 0 {
		return fmt.Errorf("Limits.RoundSize is %d: it must be positive, or 0 for the default", l.RoundSize)
	}
	if l.Limiter == nil {
		return nil
	}
	return checkRate(l.Limiter.Limit(), l.Limiter.Burst())
}

// checkRate refuses a rate that is not a number, and a positive rate whose burst would never
// allow an operation.
func checkRate(limit rate.Limit, burst int) error {
	switch {
	case math.IsInf(float64(limit), 1): // rate.Inf is a number, and JSON carries it
		return errors.New("Limits.Limiter has the rate +Inf: for no bound it must be rate.Inf, or Limiter nil")
	case !(limit >= 0): // or NaN
		return fmt.Errorf("Limits.Limiter has the rate %v: it must be positive, 0 to stop all operations, or rate.Inf for no bound", float64(limit))
	case limit > 0 && limit != rate.Inf && burst < 1:
		return fmt.Errorf("Limits.Limiter has a burst of %d: it must be at least 1, or nothing ever runs", burst)
	}
	return nil
}

func (l Limits) withDefaults() *Limits {
	setDefault(&l.RoundSize, 1000)
	return &l
}

// Limits returns the limits in force.
func (r *Engine) Limits() Limits { return *r.limits.Load() }

// SetLimits replaces the limits in force. It changes nothing if one of them is invalid.
func (r *Engine) SetLimits(limits Limits) error {
	if err := limits.check(); err != nil {
		return err
	}
	r.limits.Store(limits.withDefaults())
	// A reconciler that is not running yet uses the new limits from the start.
	if err := r.inbox.post(func(l *loop) { l.rate.Reset() }); !errors.Is(err, ErrNotRunning) {
		return err
	}
	return nil
}

func (r *Engine) roundSize() int { return r.limits.Load().RoundSize }
