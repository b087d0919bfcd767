package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// TestNoMoreThanTheLimitIsDeletedWithoutAnApproval writes, deletes, approves and
// waits at random, and looks at what is deleted within each window.
func TestNoMoreThanTheLimitIsDeletedWithoutAnApproval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		workers, round := rapid.IntRange(1, 3).Draw(rt, "workers"), rapid.IntRange(1, 5).Draw(rt, "round")
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 30).Draw(rt, "steps")
		var faults []string
		prepared(t, func(w *world) {
			w.config.DeleteLimit = reconciler.ChangeLimit{Rows: 4, Percent: 25, Window: 10 * time.Second}
			w.config.Workers, w.config.Limits.RoundSize = workers, round
			w.config.MaxBackoff = 200 * time.Millisecond
		}, func(_ *testing.T, w *world) {
			check := &limitCheck{world: w, approved: map[string]bool{}}
			w.target.will(check.act)
			w.put(numbered(40, 1)...)
			for _, step := range steps {
				check.step(step)
			}
			faults = check.faults
			check.mend()
			for plan := w.plan(); plan.ID != ""; plan = w.plan() {
				w.approve()
			}
			w.pass(time.Minute)
			w.wantConverged()
		})
		if len(faults) > 0 {
			rt.Fatal(faults)
		}
	})
}

// limitStep is something done to some rows.
type limitStep struct {
	kind, first, last int
	takes             time.Duration
}

func drawStep(t *rapid.T) limitStep {
	s := limitStep{kind: rapid.IntRange(0, 6).Draw(t, "kind"), first: rapid.IntRange(0, 39).Draw(t, "first")}
	s.last = min(40, s.first+rapid.IntRange(1, 15).Draw(t, "rows"))
	s.takes = time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond
	return s
}

// limitCheck knows what was deleted, and what of that was approved.
type limitCheck struct {
	*world
	approved map[string]bool
	done     []call // without an approval
	let      []call // with one
	failing  bool
	faults   []string
}

func (c *limitCheck) step(s limitStep) {
	switch s.kind {
	case 0, 1, 2:
		c.delete(idsOf(s.first, s.last)...)
	case 3:
		rows := numbered(40, 1)[s.first:s.last]
		for _, r := range rows {
			c.unapprove(r.ID)
		}
		c.put(rows...)
	case 4:
		plan := c.plan()
		c.delete(idsOf(s.first, s.last)...) // is not approved
		c.setApproved(plan)
		if err := c.r.Approve(c.t.Context(), plan.ID); (err == nil) != (plan.ID != "") {
			c.faults = append(c.faults, fmt.Sprintf("approve %q: %v", plan.ID, err))
		}
		synctest.Wait()
	case 5:
		c.target.mu.Lock()
		c.failing = !c.failing
		c.target.mu.Unlock()
	case 6:
		c.pass(s.takes)
	}
}

func (c *limitCheck) mend() {
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	c.failing = false
}

func (c *limitCheck) setApproved(plan reconciler.Plan) {
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	for _, op := range plan.Operations {
		c.approved[op.Key] = true
	}
}

func (c *limitCheck) unapprove(key string) {
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	delete(c.approved, key)
}

func (c *limitCheck) act(_ context.Context, op call) (reconciler.Result, error) {
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	if op.op != "delete" {
		return reconciler.Result{}, nil
	}
	if c.failing {
		return reconciler.Result{}, errBoom
	}
	if c.approved[op.id] {
		c.let = append(c.let, op)
		return reconciler.Result{}, nil
	}
	c.done = append(c.done, op)
	c.look(op.at)
	return reconciler.Result{}, nil
}

// look compares what was deleted in the window with what there was to delete.
func (c *limitCheck) look(now time.Time) {
	deleted, all := map[string]bool{}, map[string]bool{}
	for _, op := range c.done {
		if now.Sub(op.at) <= c.config.DeleteLimit.Window {
			deleted[op.id] = true
			all[op.id+" deleted"] = true
		}
	}
	// What was approved meanwhile was there when the others were let through.
	for _, op := range c.let {
		all[op.id] = true
	}
	for id := range c.target.is {
		all[id] = true
	}
	for r := range c.table.All(c.db.ReadTxn()) {
		all[r.ID] = true
	}
	if n := len(deleted); n > 4 && n*100 > 25*len(all) {
		c.faults = append(c.faults, fmt.Sprintf("%d of %d rows were deleted within the window", n, len(all)))
	}
}

func TestLimitsAreCheckedWithTheirNames(t *testing.T) {
	w := newWorld(t)
	for want, config := range map[string]reconciler.Config{
		"Config.DeleteLimit.Rows is -1":       {DeleteLimit: reconciler.ChangeLimit{Rows: -1}},
		"Config.DeleteLimit.Percent is 100.5": {DeleteLimit: reconciler.ChangeLimit{Percent: 100.5}},
		"Config.UpdateLimit.Percent is -1":    {UpdateLimit: reconciler.ChangeLimit{Percent: -1}},
		"Config.UpdateLimit.Window is -1s":    {UpdateLimit: reconciler.ChangeLimit{Window: -time.Second}},
	} {
		_, err := reconciler.New(reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: w.target, Config: config})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestLimitThatCannotCoverPruningIsToldAtTheStart(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		target reconciler.Target[row]
		off    bool
		want   bool
	}{
		{w.target, false, true},
		{w.target, true, false},
		{observing{w.target}, false, false},
	} {
		var log bytes.Buffer
		p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: test.target, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		p.Config.DeleteLimit.Off = test.off
		must(reconciler.New(p))
		if told := strings.Contains(log.String(), "the limit of deletes does not cover what it prunes"); told != test.want {
			t.Errorf("told %t, want %t: %s", told, test.want, log.String())
		}
	}
}

func TestDeletesOfATargetThatIsPrunedAreLimited(t *testing.T) {
	prepared(t, func(w *world) { w.prunes = true }, func(_ *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.target.log()
		w.delete(idsOf(0, 20)...)
		w.equal("deleted", []string(nil), w.deleted())
		w.approve()
		w.wantConverged()
	})
}

// The cursor that looks ahead must not keep the feed from being forgotten, or be left open.
func TestFeedOfManyDeletesIsReadToItsEnd(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 1 }, func(t *testing.T, w *world) {
		w.put(numbered(50, 1)...)
		w.update(func(txn *statedb.WriteTxn) error {
			for _, id := range idsOf(0, 12) {
				if _, _, err := w.table.Delete(txn, row{ID: id}); err != nil {
					return err
				}
			}
			return nil
		})
		w.pass(2 * time.Second)
		w.wantConverged()
		if n := w.r.LooksAhead(); n != 0 {
			t.Errorf("%d cursors are left", n)
		}
	})
}
