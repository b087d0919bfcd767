package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// deletesLast runs a test with routes whose deletes come last. The route eth0/a is there.
func deletesLast(t *testing.T, test func(t *testing.T, c *chain)) {
	t.Helper()
	chained(t, func(t *testing.T, c *chain) {
		c.stop("routes")
		c.last = true
		c.start("routes")
		c.commit("links eth0", "addresses eth0/1", "routes eth0/a")
		c.pass(time.Hour)
		c.forget()
		test(t, c)
	})
}

func TestDeletesComeLast(t *testing.T) {
	deletesLast(t, func(_ *testing.T, c *chain) {
		c.commit("-routes eth0/a", "routes eth0/z")
		c.pass(time.Second)
		c.wantLog("routes eth0/z", "-routes eth0/a")
		c.commit("-routes eth0/z")
		c.wantLog("-routes eth0/z")
	})
}

func TestADeleteWaitsForARowThatFailsHoweverLong(t *testing.T) {
	for name, change := range map[string]func(c *chain){
		"in one change": func(c *chain) { c.commit("-routes eth0/a", "routes eth0/b", "routes eth0/c") },
		"later": func(c *chain) {
			c.commit("routes eth0/b")
			c.pass(time.Hour)
			c.commit("-routes eth0/a", "routes eth0/c")
		},
		"soon after a start": func(c *chain) {
			c.stop("routes")
			c.commit("routes eth0/b")
			c.start("routes")
			c.pass(9 * time.Minute)
			c.commit("-routes eth0/a")
		},
		"earlier": func(c *chain) {
			c.commit("-routes eth0/a", "routes lo0/w")
			c.commit("routes eth0/b")
			c.commit("routes lo0/w")
		},
	} {
		t.Run(name, func(t *testing.T) {
			deletesLast(t, func(t *testing.T, c *chain) {
				c.breaks("routes eth0/b", true)
				c.breaks("routes lo0/w", true)
				change(c)
				c.pass(time.Hour)
				c.breaks("routes lo0/w", false)
				c.pass(time.Hour)
				if !c.there("routes eth0/a") {
					t.Error("the old one is gone")
				}
				c.wantWaits("routes", "eth0/a", "order: the update of routes eth0/b, which is in error: boom")
				// The later versions of the row count.
				c.breaks("routes eth0/d", true)
				c.commit("-routes eth0/b", "routes eth0/d")
				c.pass(time.Hour)
				c.wantWaits("routes", "eth0/a", "order: the update of routes eth0/d, which is in error: boom")
				c.breaks("routes eth0/d", false)
				c.pass(2 * time.Minute)
				if c.there("routes eth0/a") {
					t.Error("the old one stays though the new one is there")
				}
			})
		})
	}
}

// A row that may need another one to be gone has failed for another reason, or has not been tried.
func TestADeleteIsNotInTheWayOfARowThatCannotBeAppliedAnyway(t *testing.T) {
	deletesLast(t, func(t *testing.T, c *chain) {
		c.breaks("routes eth0/a!", true)
		c.breaks("links eth1", true)
		c.commit("-routes eth0/a", "routes eth0/a!")
		c.pass(time.Hour)
		c.commit("-routes eth0/a!", "links eth1", "routes eth1/a")
		c.pass(time.Hour)
		if !c.there("routes eth0/a") {
			t.Error("the old one is gone")
		}
	})
}

func TestADeleteDoesNotWait(t *testing.T) {
	for name, change := range map[string]func(c *chain){
		"for a row that failed before its own was changed": func(c *chain) {
			c.commit("routes eth0/b")
			c.commit("routes eth0/a")
			c.pass(time.Second)
			c.commit("-routes eth0/a")
		},
		"for a row of the start": func(c *chain) {
			c.stop("routes")
			c.commit("routes eth0/b")
			c.start("routes")
			c.pass(10 * time.Minute)
			c.commit("-routes eth0/a")
		},
		"if it is triggered by its key": func(c *chain) {
			c.commit("-routes eth0/a", "routes eth0/b")
			c.pass(time.Minute)
			if n, err := c.rs["routes"].Trigger(c.t.Context(), reconciler.Selector[row]{Keys: []string{"eth0/a"}}); n != 1 || err != nil {
				c.t.Error(n, err)
			}
		},
		"for a row that is gone again": func(c *chain) {
			c.commit("-routes eth0/a", "routes eth0/b")
			c.pass(time.Minute)
			c.commit("-routes eth0/b")
		},
		"for a row that has been applied since": func(c *chain) {
			c.breaks("routes eth0/b", false)
			c.commit("routes eth0/b")
			c.pass(time.Second)
			c.breaks("routes eth0/b", true)
			c.rs["routes"].FullPass()
			c.pass(time.Second)
			c.commit("-routes eth0/a")
		},
		"for a row that was applied and does not work": func(c *chain) {
			c.breaks("routes eth0/b?", true)
			c.commit("-routes eth0/a", "routes eth0/b?")
		},
		"for a row that needs it to be gone": func(c *chain) {
			c.breaks("routes eth0/a'", true)
			c.commit("-routes eth0/a", "routes eth0/a'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			deletesLast(t, func(t *testing.T, c *chain) {
				c.breaks("routes eth0/b", true)
				change(c)
				c.pass(time.Second)
				if c.there("routes eth0/a") {
					t.Error("the delete waits")
				}
			})
		})
	}
}

// It may be in the place of what is deleted, however long the other row has not worked.
func TestADeleteWaitsForARowThatWaitsForOneThatDoesNotWork(t *testing.T) {
	deletesLast(t, func(t *testing.T, c *chain) {
		c.breaks("addresses eth1/1?", true)
		c.commit("links eth1", "addresses eth1/1?")
		c.pass(time.Hour)
		c.commit("routes eth1/b", "-routes eth0/a")
		c.pass(time.Hour)
		if !c.there("routes eth0/a") {
			t.Error("the old one is gone")
		}
		c.wantWaits("routes", "eth0/a", "order: the update of routes eth1/b")
		c.breaks("addresses eth1/1?", false)
		c.pass(10 * time.Minute)
		if c.there("routes eth0/a") || !c.there("routes eth1/b") {
			t.Error("the new one is not there, or the old one stays")
		}
	})
}

// What was changed while a row was paused was changed with it.
func TestADeleteWaitsForRowsThatChangedInAPause(t *testing.T) {
	deletesLast(t, func(t *testing.T, c *chain) {
		c.breaks("routes eth0/b", true)
		if err := c.rs["routes"].Pause(t.Context(), reconciler.Selector[row]{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		c.commit("-routes eth0/a", "routes eth0/b")
		c.pass(time.Hour)
		if err := c.rs["routes"].Resume(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Hour)
		if !c.there("routes eth0/a") {
			t.Error("the old one is gone")
		}
		if _, err := c.rs["routes"].Trigger(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Error(err)
		}
		c.pass(time.Minute)
		if !c.there("routes eth0/a") {
			t.Error("the old one is gone after all rows were triggered")
		}
	})
}

// Each waits for all, and all go at once when there is nothing to wait for.
func TestManyDeletesComeLast(t *testing.T) {
	deletesLast(t, func(t *testing.T, c *chain) {
		const n = 3000
		c.breaks("routes eth0/1/7", true)
		var first, second []string
		for i := range n {
			first = append(first, fmt.Sprintf("routes eth0/0/%d", i))
			second = append(second, fmt.Sprintf("-routes eth0/0/%d", i), fmt.Sprintf("routes eth0/1/%d", i))
		}
		c.commit(first...)
		c.pass(time.Hour)
		c.commit(second...)
		c.pass(time.Minute)
		for i := range n {
			if !c.there(fmt.Sprintf("routes eth0/0/%d", i)) {
				t.Fatalf("%d is gone", i)
			}
		}
		if plan, err := c.rs["routes"].Plan(t.Context()); err != nil || plan.Deletes > 0 {
			t.Error(plan.Deletes, "deletes are held,", err)
		}
		c.breaks("routes eth0/1/7", false)
		if _, err := c.rs["routes"].Trigger(t.Context(), reconciler.Selector[row]{}); err != nil {
			t.Error(err)
		}
		c.pass(time.Second)
		for i := range n {
			if c.there(fmt.Sprintf("routes eth0/0/%d", i)) {
				t.Fatalf("%d is there", i)
			}
		}
	})
}
