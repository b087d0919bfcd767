package hivetest

import (
	"testing"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

// Health is a health.Health like that of a module, for a unit test of what reports its health: it needs no hive. It is safe for
// concurrent use.
type Health struct {
	health.Health

	db       *statedb.DB
	registry *health.Registry
}

// NewHealth makes one that ends with the test.
func NewHealth(t testing.TB) *Health {
	t.Helper()
	return newHealth(t, statedb.New(statedb.WithLogger(Logger(t))))
}

func newHealth(t testing.TB, db *statedb.DB) *Health {
	t.Helper()
	h := &Health{db: db}
	var err error
	if h.registry, err = health.NewRegistry(db, Logger(t)); err != nil {
		t.Fatal(err)
	}
	if h.Health, err = h.registry.Scope(testModule); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// Of returns what was last reported to a scope, that is given by the names of the scopes that lead to it; without any of them, to
// the Health itself. It is false if nothing has been reported, or the scope has been closed.
func (h *Health) Of(names ...string) (health.Status, bool) {
	s, _, ok := h.registry.Table().Get(h.db.ReadTxn(), health.ByID().Query(health.ID(testModule, names...)))
	return s, ok
}
