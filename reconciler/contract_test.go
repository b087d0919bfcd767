package reconciler_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

// TestTheTargetOfTheExampleKeepsTheContract tries the target that people copy.
func TestTheTargetOfTheExampleKeepsTheContract(t *testing.T) {
	world := &store{shelves: map[string]string{}}
	put := func(name, content string) {
		world.mu.Lock()
		defer world.mu.Unlock()
		world.shelves[name] = content
	}
	targettest.Run(t, targettest.Contract[shelf]{
		Open:     func(*testing.T) reconciler.Target[shelf] { return world },
		Key:      func(s shelf) string { return s.Name },
		Rows:     []shelf{{Name: "left", Content: "books"}, {Name: "right", Content: "dust"}, {Name: "top"}},
		Variants: []shelf{{Name: "left", Content: "dust"}, {Name: "right"}},
		Invalid:  []shelf{{Name: "door", Content: "water"}},
		Holds: func(_ *testing.T, s shelf) bool {
			content, there := world.now()[s.Name]
			return there && content == s.Content
		},
		Remove: func(t *testing.T, s shelf) {
			if err := world.Delete(t.Context(), statedb.New().ReadTxn(), s); err != nil {
				t.Fatal(err)
			}
		},
		Disturb: func(_ *testing.T, s shelf) { put(s.Name, "disturbed") },
	})
}

// neverPruned has nothing to prepare, and is not pruned although it cannot list what there is.
type neverPruned struct {
	reconciler.NoInit
	reconciler.NoPrune[row]
}

func (neverPruned) Update(context.Context, statedb.ReadTxn, row) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}

func (neverPruned) Delete(context.Context, statedb.ReadTxn, row) error { return nil }

// listing is neverPruned that can list what there is.
type listing struct{ neverPruned }

func (listing) Observe(context.Context) iter.Seq2[row, error] { return func(func(row, error) bool) {} }

func TestTargetsThatWouldKeepTheirOrphansAreRefused(t *testing.T) {
	w := newWorld(t)
	_, err := reconciler.New(reconciler.Params[row]{Name: "mine", DB: w.db, Table: w.rows(), Target: neverPruned{}})
	for _, part := range []string{`reconciler "mine": Params.Target is reconciler_test.neverPruned`, "NoPrune and has no Observe"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %v, expected it to say %q", err, part)
		}
	}
	if _, err := reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: listing{}}); err != nil {
		t.Errorf("a target that can list what there is: %v", err)
	}
}

func TestNoInitAndNoPruneStandInForMethodsThatATargetDoesNotNeed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := (reconciler.NoInit{}).Init(ctx); err != nil {
		t.Errorf("Init: %v", err)
	}
	cancel()
	if err := (reconciler.NoInit{}).Init(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Init with a context that has ended: %v", err)
	}
	if _, err := (reconciler.NoPrune[row]{}).Prune(t.Context(), nil, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Prune: %v, expected errors.ErrUnsupported", err)
	}
}
