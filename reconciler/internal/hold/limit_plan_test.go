package hold

import (
	"fmt"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
)

// What is held because it is too much is checked, too, and a plan that was shown before more rows would be stranded cannot be approved.
func TestAPlanNamesTheRowsThatItWouldStrand(t *testing.T) {
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	for i := range 16 {
		b.put("links", row{ID: fmt.Sprint(i)})
	}
	b.put("routes", row{ID: "a", Of: "3"})
	l := b.stranding("links", members["links"], nil)
	var task *pool.Task
	for i := range 13 {
		task = b.removed(l, "links", fmt.Sprint(i))
	}
	if _, held := l.Holds(task, b.db.ReadTxn(), b.now); !held {
		t.Error("not held")
	}
	want := func(why string) {
		t.Helper()
		if held := l.Held(); len(held) != 1 || held[0].Why != why+" would lack what they depend on, and deletes of more than 10 rows and 30 % of the table within 1m0s" {
			t.Errorf("held %+v, expected %q", held, why)
		}
	}
	check := func(news bool) {
		t.Helper()
		b.now = l.NextTry().Add(1)
		if l.Expire(b.now); l.Relieve(b.now) != news {
			t.Errorf("news: %t", !news)
		}
		if _, held := l.Holds(task, b.db.ReadTxn(), b.now); !held {
			t.Error("released")
		}
	}
	want("1 of 1 rows of routes (a)")
	shown := l.ShowPlan()
	check(false)
	if again := l.ShowPlan(); again != shown {
		t.Errorf("plan %s instead of %s, although it is the same", again, shown)
	}
	b.put("routes", row{ID: "b", Of: "5"})
	if _, ok := l.Approve(shown); ok {
		t.Error("the plan that was shown before the row was declared is approved")
	}
	check(true)
	want("2 of 2 rows of routes (a and others)")
	if _, ok := l.Approve(shown); ok {
		t.Error("the plan that was shown before is approved")
	}
	shown = l.ShowPlan()
	b.delete("routes", "b")
	check(true)
	want("1 of 1 rows of routes (a)")
	if n, ok := l.Approve(shown); !ok || n != 13 {
		t.Errorf("approved %d, %t", n, ok)
	}
}

func TestADeleteThatIsHeldLaterIsNotInAPlanThatWasShown(t *testing.T) {
	b := newBed(t, "links", "routes")
	members := b.group(t, "links", "routes")
	b.put("links", row{ID: "a"}, row{ID: "b"})
	b.put("routes", row{ID: "r", Of: "b"})
	l := b.stranding("links", members["links"], nil)
	holds := func(task *pool.Task, want bool) {
		t.Helper()
		b.now = b.now.Add(time.Second)
		if _, held := l.Holds(task, b.db.ReadTxn(), b.now); held != want {
			t.Errorf("held: %t", held)
		}
	}
	first := b.removed(l, "links", "a")
	holds(first, false) // it fails, and is tried again later
	holds(b.removed(l, "links", "b"), true)
	shown := l.ShowPlan()
	holds(first, true)
	if n, ok := l.Approve(shown); ok {
		t.Errorf("approved %d", n)
	}
	if n, ok := l.Approve(l.ShowPlan()); !ok || n != 2 {
		t.Errorf("approved %d, %t, expected 2", n, ok)
	}
}
