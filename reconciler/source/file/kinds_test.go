package file

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// route is a comparable row with a status.
type route struct {
	Destination netip.Prefix      `yaml:"destination"`
	Gateway     netip.Addr        `yaml:"gateway"`
	Device      string            `yaml:"device"`
	Metric      uint32            `yaml:"metric"`
	Table       int8              `yaml:"table"`
	Up          bool              `yaml:"up"`
	Status      reconciler.Status `yaml:"-"`
}

func (r route) GetStatus() reconciler.Status              { return r.Status }
func (r route) WithStatus(status reconciler.Status) route { r.Status = status; return r }

func (r route) normalized() (route, error) {
	var errs []error
	if !r.Destination.IsValid() {
		errs = append(errs, &reconciler.FieldError{Field: "destination", Err: errors.New("missing, expected a prefix")})
	}
	if r.Metric > 1000 {
		errs = append(errs, &reconciler.FieldError{Field: "metric", Err: errors.New("found more than 1000")})
	}
	if r.Device == "bad" {
		errs = append(errs, errors.New("bad is bad"))
	}
	return r, errors.Join(errs...)
}

// set is a pointer row that cannot be compared.
type set struct {
	Labels `yaml:",inline"`
	Name   string
	Rules  []rule              `yaml:"rules"`
	Vars   map[string]int      `yaml:"vars"`
	Hops   immutable.List[hop] `yaml:"hops"`
	Limit  *uint               `yaml:"limit"`
	Every  time.Duration       `yaml:"every"`
	Any    any                 `yaml:"any"`
	Weight float64             `yaml:"weight"`
	Text   map[string]string   `yaml:"text"`
}

// Labels is embedded inline.
type Labels struct {
	Team string `yaml:"team"`
}

type rule struct {
	From  netip.Addr `yaml:"from"`
	Ports []uint16   `yaml:"ports"`
}

// hop is an element of a list that can be compared.
type hop struct {
	Via  netip.Addr `yaml:"via"`
	Cost uint8      `yaml:"cost"`
}

// normalized refuses rules without a source and ports that are 0.
func (s *set) normalized() (*set, error) {
	var errs []error
	wrong := func(text, format string, path ...any) {
		errs = append(errs, &reconciler.FieldError{Field: fmt.Sprintf(format, path...), Err: errors.New(text)})
	}
	for i, r := range s.Rules {
		if !r.From.IsValid() {
			wrong("missing, expected an address", "rules[%d].from", i)
		}
		for j, port := range r.Ports {
			if port == 0 {
				wrong("found 0", "rules[%d].ports[%d]", i, j)
			}
		}
	}
	for i, h := range s.Hops.All() {
		if h.Cost > 100 {
			wrong("found more than 100", "hops[%d].cost", i)
		}
	}
	return s, errors.Join(errs...)
}

type fixture struct {
	db     *statedb.DB
	routes *statedb.RWTable[route]
	sets   *statedb.RWTable[*set]

	// configure, if set, changes the kinds.
	configure func(*KindConfig[route], *KindConfig[*set])
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	f := fixture{db: statedb.New()}
	var err error
	f.routes, err = statedb.NewTable(f.db, reconciler.Reconciled(statedb.Schema[route]{
		Name: "routes", Primary: statedb.NewIndex("key", func(r route) string { return r.Destination.String() }),
	}))
	if err == nil {
		f.sets, err = statedb.NewTable(f.db, statedb.Schema[*set]{
			Name: "sets", Primary: statedb.NewIndex("name", func(s *set) string { return s.Name }),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) kinds(t testing.TB) []Kind {
	t.Helper()
	ofRoutes := KindConfig[route]{
		Name: "route", Table: f.routes, KeyField: "destination",
		Default: func() route { return route{Up: true} }, Normalized: route.normalized,
	}
	ofSets := KindConfig[*set]{Name: "set", Table: f.sets, Normalized: (*set).normalized}
	if f.configure != nil {
		f.configure(&ofRoutes, &ofSets)
	}
	routes, err := NewKind(ofRoutes)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := NewKind(ofSets)
	if err != nil {
		t.Fatal(err)
	}
	return []Kind{routes, sets}
}

func (f fixture) parser(t testing.TB) *parser {
	t.Helper()
	p := &parser{kinds: map[string]Kind{}}
	for _, k := range f.kinds(t) {
		p.kinds[k.Name()] = k
		p.names = append(p.names, k.Name())
	}
	return p
}

func (f fixture) config(t testing.TB, dir string) Config {
	t.Helper()
	return Config{DB: f.db, Dir: dir, Kinds: f.kinds(t), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
}
