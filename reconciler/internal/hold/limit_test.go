package hold

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// limited is a table of so many rows whose changes are limited to 2 rows and 20 %.
func limited(t *testing.T, rows int) (*bed, *ChangeLimiter) {
	t.Helper()
	b := newBed(t, "rows")
	for i := range rows {
		b.put("rows", row{ID: fmt.Sprint(i)})
	}
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	return b, NewChangeLimiter(b.owner("rows"), nil, nil, limit, limit, nil, statusOf, b.now)
}

// gone deletes rows, and returns the operations on them, which are counted.
func (b *bed) gone(l *ChangeLimiter, ids ...string) (tasks []*pool.Task) {
	b.t.Helper()
	for _, id := range ids {
		tasks = append(tasks, b.task(pool.Delete, "rows", id))
	}
	b.delete("rows", ids...)
	for _, task := range tasks {
		l.CountDelete(task.Item)
	}
	return tasks
}

func heldBy(kind pool.Kind) Reason {
	return Reason{
		Stage: workqueue.Limit,
		Text:  fmt.Sprintf("until its %v is approved: more than 2 rows and 20 %% of the table within 1m0s", kind),
	}
}

func TestDeletesBeyondTheLimitAreHeldUntilTheyAreApproved(t *testing.T) {
	b, l := limited(t, 10)
	tasks := b.gone(l, "1", "2", "3")
	for _, task := range tasks {
		b.want(l, task, heldBy(pool.Delete))
	}
	if deletes, updates := l.HeldItems(); deletes != 3 || updates != 0 {
		t.Errorf("%d deletes and %d updates are held", deletes, updates)
	}
	if _, ok := l.Approve(l.PlanID()); ok {
		t.Error("a plan was approved that nobody has seen")
	}
	id := l.ShowPlan()
	late := b.gone(l, "4")[0]
	if n, ok := l.Approve(id); n != 3 || !ok {
		t.Errorf("%d approved, %t", n, ok)
	}
	for _, task := range tasks {
		b.want(l, task, Reason{})
		l.Succeeded(task, b.now)
	}
	if _, ok := l.Approve(id); ok {
		t.Error("a plan was approved twice")
	}
	b.want(l, late, heldBy(pool.Delete)) // what came later needs an approval of its own
	if n, ok := l.Approve(l.ShowPlan()); n != 1 || !ok {
		t.Errorf("%d approved, %t", n, ok)
	}
	b.want(l, late, Reason{})
}

func TestDeletesWithinTheLimitRunAndCountForTheWindow(t *testing.T) {
	b, l := limited(t, 20)
	for _, task := range b.gone(l, "1", "2", "3") { // 15 %
		b.want(l, task, Reason{})
		l.Succeeded(task, b.now)
	}
	b.now = b.now.Add(time.Minute)
	l.Expire(b.now)
	b.want(l, b.gone(l, "4", "5")[0], heldBy(pool.Delete))
	b.now = b.now.Add(1)
	l.Expire(b.now)
	if l.Relieve(b.now) {
		t.Error("time alone released what was held")
	}
	b.want(l, b.gone(l, "6")[0], heldBy(pool.Delete))
	l.Discount(b.queue.Items[b.queueKey("6")])
	if l.Relieve(b.now) {
		t.Error("what came later and was withdrawn released what was held")
	}
	for i := range 20 { // other rows do not matter either
		b.put("rows", row{ID: fmt.Sprint("more", i)})
	}
	b.want(l, b.gone(l, "7")[0], heldBy(pool.Delete))
	l.Discount(b.queue.Items[b.queueKey("7")])
	if l.Relieve(b.now) {
		t.Error("other rows released what was held")
	}
	l.Discount(b.queue.Items[b.queueKey("5")])
	if !l.Relieve(b.now) {
		t.Error("what is left is within the limit, together with what was done before")
	}
	b.want(l, b.gone(l, "8")[0], Reason{}) // and time counts again
}

// memory is a Memory.
type memory struct{ held *HeldDeletes }

func (m *memory) DeletesHeld() *HeldDeletes { return m.held }

func (m *memory) SetDeletesHeld(held *HeldDeletes) error {
	m.held = held
	return nil
}

func TestDeletesThatWereHeldBeforeTheStartAreHeldUntilAllOrphansAreKnown(t *testing.T) {
	b, _ := limited(t, 20)
	m := &memory{held: &HeldDeletes{Done: 2, Allowed: 2}}
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	l := NewChangeLimiter(b.owner("rows"), nil, nil, limit, limit, m, statusOf, b.now)
	if len(l.Held()) > 0 {
		t.Error("something is held before anything is known")
	}
	b.want(l, b.gone(l, "1")[0], heldBy(pool.Delete))
	l.Discount(b.queue.Items[b.queueKey("1")])
	if l.Relieve(b.now) {
		t.Error("relieved before the orphans are known")
	}
	orphan := b.gone(l, "2")[0]
	l.Searched(b.now)
	b.want(l, orphan, heldBy(pool.Delete))
	if m.held == nil {
		t.Error("not remembered any more")
	}
	if n, ok := l.Approve(l.ShowPlan()); n != 1 || !ok || m.held != nil {
		t.Errorf("%d approved, %t, remembered %v", n, ok, m.held)
	}
	b.want(l, b.gone(l, "3")[0], Reason{})

	m.held = &HeldDeletes{Done: 2, Allowed: 2}
	l = NewChangeLimiter(b.owner("rows"), nil, nil, limit, limit, m, statusOf, b.now)
	if l.Searched(b.now); m.held != nil {
		t.Error("remembered although there are no orphans")
	}
}

// Others have removed some of what was held, so the rest would be within the limit.
func TestARestartDoesNotReleaseTheRestOfWhatWasHeld(t *testing.T) {
	b, _ := limited(t, 20)
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	for held, released := range map[HeldDeletes]bool{{Allowed: 4}: false, {Allowed: 4, Stranding: true}: true} {
		m := &memory{held: &held}
		l := NewChangeLimiter(b.owner("rows"), nil, nil, limit, limit, m, statusOf, b.now)
		l.CountDelete(b.task(pool.Delete, "rows", "1").Item)
		l.Searched(b.now)
		if l.Relieve(b.now) != released || (m.held == nil) != released {
			t.Errorf("%+v: remembered %v, expected released: %t", held, m.held, released)
		}
	}
}

// queueKey is the encoded key of a row.
func (b *bed) queueKey(id string) string { return string(byID.Query(id).Untyped().Key) }

func TestUpdatesOfRowsThatWereAppliedAreLimited(t *testing.T) {
	b, l := limited(t, 10)
	var tasks []*pool.Task
	for i := range 10 {
		task := b.task(pool.Update, "rows", fmt.Sprint(i))
		b.want(l, task, Reason{}) // the first time
		l.Succeeded(task, b.now)
		task.Item.Reasons = workqueue.Change
		tasks = append(tasks, task)
	}
	for _, task := range tasks[:3] {
		l.CountUpdate(task.Item)
	}
	b.want(l, tasks[0], heldBy(pool.Update))
	tasks[5].Was = status.Done // a full pass changes nothing
	b.want(l, tasks[5], Reason{})
}

func TestLimitLooksAheadInTheFeed(t *testing.T) {
	b, l := limited(t, 10)
	cursor := b.tables["rows"].Untyped().Changes(0)
	defer cursor.Close()
	for change := range cursor.Changes(b.db.ReadTxn()) {
		l.Take(change)
	}
	first := b.task(pool.Delete, "rows", "1")
	for i := range 4 {
		b.delete("rows", fmt.Sprint(i))
	}
	l.LookAhead(b.db.ReadTxn(), true)
	if l.LooksAhead() {
		t.Error("it looks ahead although nothing is to be decided")
	}
	l.CountDelete(first.Item)
	l.LookAhead(b.db.ReadTxn(), true)
	b.want(l, first, heldBy(pool.Delete))
	l.LookAhead(b.db.ReadTxn(), false) // the rest was taken, and came to nothing
	if l.LooksAhead() || !l.Relieve(b.now) {
		t.Error("one delete is within the limit")
	}
	b.want(l, first, Reason{})
}

// TestNoMoreChangesAreLetThroughThanTheLimit counts by itself, in a table of 20 rows.
func TestNoMoreChangesAreLetThroughThanTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, l := limited(t, 20)
		let := map[string]time.Time{} // when a delete was let through
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			b.now = b.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			l.Expire(b.now)
			id := fmt.Sprint(rapid.IntRange(0, 19).Draw(rt, "row"))
			b.put("rows", row{ID: id})
			task := b.gone(l, id)[0]
			if rapid.Bool().Draw(rt, "back") {
				l.Discount(task.Item)
				l.Relieve(b.now)
				b.put("rows", row{ID: id})
				continue
			}
			if _, held := b.holds(l, task); held {
				continue
			}
			l.Succeeded(task, b.now)
			let[id] = b.now
			recent := 0
			for _, at := range let {
				if b.now.Sub(at) <= time.Minute {
					recent++
				}
			}
			if most := 20 * 20 / 100; recent > most {
				rt.Fatalf("%d deletes within a minute, want %d at most", recent, most)
			}
		}
	})
}

// If nothing is known about what was held, it is among the orphans: rows that go meanwhile are of this run.
func TestWhatIsNotKnownIsAboutOrphans(t *testing.T) {
	b, _ := limited(t, 20)
	limit := ChangeLimit{Rows: 2, Percent: 20, Window: time.Minute}
	for _, orphan := range []bool{false, true} {
		m := &memory{held: &HeldDeletes{}}
		l := NewChangeLimiter(b.owner("rows"), nil, nil, limit, limit, m, statusOf, b.now)
		it := b.task(pool.Delete, "rows", "1").Item
		it.Orphan = orphan
		l.CountDelete(it)
		l.Searched(b.now)
		if held := m.held != nil; held != orphan {
			t.Errorf("orphan %v: remembered %v", orphan, m.held)
		}
	}
}
