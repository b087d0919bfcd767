package targettest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Contract is a target, the rows to try it with, and what can be done to its
// world without it. Open, Key and Rows are required; a rule that needs a field
// which is nil is not checked, and the log of the test says so.
type Contract[Obj any] struct {
	// Open returns a target, as a process gets it that starts. It is called often,
	// always on one and the same world; of earlier targets only the newest is used
	// any more. t is of the rule under check: release what has to be in its Cleanup.
	Open func(t *testing.T) reconciler.Target[Obj]
	// Key identifies a row, of Rows and of what the target observes.
	Key func(Obj) string
	// Rows have different keys; none needs another, and all can be there at once.
	// Nothing of ours is there at the start.
	Rows []Obj
	// Variants are other rows with the keys of some of Rows: to come from the row
	// of Rows to one of them, Update has to change something.
	Variants []Obj
	// Invalid rows are such that no repetition helps. Update refuses them with a
	// [reconciler.Terminal] error.
	Invalid []Obj
	// Holds looks, without the target, whether the world is as the row says.
	Holds func(t *testing.T, obj Obj) bool
	// Remove removes what the row stands for behind the target's back, if it is there.
	Remove func(t *testing.T, obj Obj)
	// Disturb changes what the row stands for, which is there, behind the target's
	// back.
	Disturb func(t *testing.T, obj Obj)
	// Foreign makes things that are like those of the target and not its own, with
	// other keys than Rows have, until the end of t. intact says whether they are
	// as they were made.
	Foreign func(t *testing.T) (intact func() bool)
	// Snapshot returns what operations read tables from; nil: a database without
	// tables.
	Snapshot func() statedb.ReadTxn
	// Patience is how long an operation may take; 10 seconds if not positive.
	Patience time.Duration
	// Virtual runs each rule in a [synctest] bubble, in virtual time. It is for
	// worlds in memory. A target that is stuck for ever makes the bubble panic.
	Virtual bool
}

// Run checks the target. At the end all rows are deleted.
func Run[Obj any](t *testing.T, c Contract[Obj]) {
	t.Helper()
	k := &kit[Obj]{c}
	if err := k.prepare(); err != nil {
		t.Fatalf("targettest.Contract: %v", err)
	}
	for _, r := range k.rules() {
		if r.lacks != "" {
			t.Logf("not checked, for want of Contract.%s: %s", r.lacks, r.name)
			continue
		}
		if !t.Run(r.name, func(t *testing.T) { k.check(t, r) }) {
			return // what follows builds on it
		}
	}
}

// kit is a contract that is complete.
type kit[Obj any] struct{ Contract[Obj] }

func (k *kit[Obj]) prepare() error {
	if k.Open == nil || k.Key == nil {
		return errors.New("Open or Key is nil, expected both")
	}
	if len(k.Rows) == 0 {
		return errors.New("Rows is empty: nothing would be checked")
	}
	keys := map[string]bool{}
	for _, row := range k.Rows {
		if key := k.Key(row); keys[key] {
			return fmt.Errorf("two of Rows have the key %q, expected different ones: put the second into Variants", key)
		}
		keys[k.Key(row)] = true
	}
	for _, row := range k.Variants {
		if key := k.Key(row); !keys[key] {
			return fmt.Errorf("a variant has the key %q, expected that of one of Rows", key)
		}
	}
	if k.Patience <= 0 {
		k.Patience = 10 * time.Second
	}
	if k.Snapshot == nil {
		k.Snapshot = statedb.New().ReadTxn
	}
	return nil
}

// check checks a rule: for each row in a subtest, or for all at once.
func (k *kit[Obj]) check(t *testing.T, r rule[Obj]) {
	if r.all != nil {
		k.inSession(t, r.all)
		return
	}
	for _, row := range k.Rows {
		t.Run(k.Key(row), func(t *testing.T) {
			k.inSession(t, func(s *session[Obj]) { r.row(s, row) })
		})
	}
}

// inSession runs a check that begins and ends with a world without rows.
func (k *kit[Obj]) inSession(t *testing.T, check func(*session[Obj])) {
	run := func(t *testing.T) {
		s := &session[Obj]{kit: k, t: t, present: map[string]bool{}}
		s.open()
		defer s.tidyUp()
		check(s)
	}
	if k.Virtual {
		synctest.Test(t, run)
		return
	}
	run(t)
}

// variantsOf returns the variants of a row.
func (k *kit[Obj]) variantsOf(row Obj) (variants []Obj) {
	for _, variant := range k.Variants {
		if k.Key(variant) == k.Key(row) {
			variants = append(variants, variant)
		}
	}
	return variants
}

// samplesOf returns a row and its variants.
func (k *kit[Obj]) samplesOf(row Obj) []Obj { return append([]Obj{row}, k.variantsOf(row)...) }
