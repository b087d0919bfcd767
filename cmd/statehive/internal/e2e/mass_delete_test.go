package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// deleteOrder has all tables, each before those that its rows depend on: the deletes of those
// wait for its own.
var deleteOrder = []string{"rules", "files", "nft-tables", "neighbors", "sysctls", "routes", "addresses", "links"}

func TestAMassDeleteOfEachKindIsHeldUntilItIsApproved(t *testing.T) {
	t.Parallel()
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, w.makeForeign(t.Context()))
	must(t, w.setup(map[string]string{"kept.yaml": harmless}))
	w.settledWorld(t)
	foreign := w.foreignWorld(t)
	rest := w.chooseAll(rand.New(rand.NewPCG(1, 0)))
	must(t, w.declareMany(rest))
	must(t, w.start(t.Context(), "--change-limit-rows", "2"))
	w.convergesTo(t, rest)

	must(t, w.declareMany(objectSet{}))
	for _, table := range deleteOrder {
		t.Logf("%d %s", len(rest[table]), table)
		must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
			_, err := w.heldPlan(ctx, table)
			return err
		}))
		must(t, w.differsFrom(t.Context(), rest)) // of this kind, and of those whose turn has not come
		rest = rest.without(table)
		must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
			if plan, err := w.heldPlan(ctx, table); err == nil {
				_ = w.statehive(ctx, "approve", table, plan) // which may have become another one
			}
			return w.differsFrom(ctx, rest)
		}))
	}
	w.convergesTo(t, objectSet{})
	if diff := cmp.Diff(foreign, w.foreignWorld(t)); diff != "" {
		t.Errorf("what is not ours: %s", diff)
	}
}

// chooseAll returns objects of all kinds, as [world.chooseMany] does when it leaves none out.
func (w *world) chooseAll(choose *rand.Rand) objectSet {
	for {
		c := w.chooseMany(choose)
		if len(c["routes"]) == unitRoutes**many.scale && len(c["files"]) > unitFiles**many.scale {
			return c
		}
	}
}

var planLine = regexp.MustCompile(`^plan (\S+), held since .*: ([1-9][0-9]*) deletes and 0 updates`)

// heldPlan returns the id of the plan of deletes that are held.
func (w *world) heldPlan(ctx context.Context, table string) (id string, err error) {
	r := w.statehive(ctx, "plan", table)
	if found := planLine.FindStringSubmatch(r.stdout); found != nil {
		return found[1], nil
	}
	return "", fmt.Errorf("no deletes of %s are held: %s", table, r)
}

// differsFrom returns how the objects of ours differ from those of documents, or nil.
func (w *world) differsFrom(ctx context.Context, want objectSet) error {
	is, err := w.ownObjects(ctx)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want.states(), is, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("the kernel: %s", diff)
	}
	return nil
}
