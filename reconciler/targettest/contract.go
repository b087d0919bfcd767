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

// Contract describes a target, the rows to test it with, and how to access its
// world behind its back. Open, Key and Rows are required. A rule that needs a
// field that is not set is not checked, which the test logs.
type Contract[Obj any] struct {
	// Open returns a new target, as in a process that has just started. It is called
	// often, always for the same world. Only the target returned last is used. t is the
	// test of the rule being checked: use its Cleanup to release resources.
	Open func(t *testing.T) reconciler.Target[Obj]
	// Key returns the key of a row. It is called for Rows and for rows that the target
	// observes.
	Key func(Obj) string
	// Rows have different keys. They do not depend on each other, and can all exist at
	// the same time. At the start the world has no objects of the target.
	Rows []Obj
	// Variants are other rows with the keys of some of Rows. To get from the row of Rows
	// to one of its variants, Update has to change something.
	Variants []Obj
	// Invalid rows can never be applied. Update refuses them with a
	// [reconciler.Terminal] error.
	Invalid []Obj
	// Holds reports, without using the target, whether the world matches the row.
	Holds func(t *testing.T, obj Obj) bool
	// Remove removes the object of the row behind the target's back, if it exists.
	Remove func(t *testing.T, obj Obj)
	// Disturb changes the object of the row, which exists, behind the target's back.
	Disturb func(t *testing.T, obj Obj)
	// Foreign makes objects that are similar to the target's but not its own, with other
	// keys than Rows. They exist until the end of t. intact reports whether they are
	// unchanged.
	Foreign func(t *testing.T) (intact func() bool)
	// Snapshot returns the snapshot for operations. If it is nil, they get a snapshot of
	// a database without tables.
	Snapshot func() statedb.ReadTxn
	// Patience is how long an operation may take. The default is 10 seconds.
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
			t.Logf("not checked, because Contract.%s is not set: %s", r.lacks, r.name)
			continue
		}
		if !t.Run(r.name, func(t *testing.T) { k.check(t, r) }) {
			return // the following rules build on this one
		}
	}
}

// kit is a checked contract with its defaults filled in.
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
			return fmt.Errorf("a variant has the key %q, expected a key of one of Rows", key)
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

// check checks a rule: for each row in a subtest of its own, or for all rows together.
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

// inSession runs a check that starts and ends without any rows in the world.
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
