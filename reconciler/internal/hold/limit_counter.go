package hold

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// counter counts the changes of one kind for a [ChangeLimiter].
type counter struct {
	limit  ChangeLimit
	kind   pool.Kind
	claims map[string]*claim // the claims of the items that it counts, by encoded key
	tally  *tally

	undecided int         // items that are neither admitted nor approved
	holding   bool        // undecided items are held
	limited   bool        // while they are held, more than are allowed have been
	unknown   bool        // they are held because it is not known what was held before
	strands   string      // the rows that they would strand: see Member.strands
	stranded  rowsByTable // these rows: see Member.strands
	since     time.Time   // when holding became true
	// While items are held, the changes within the window before that count on, and only so many rows may be changed as when
	// holding began: neither time nor other rows release anything.
	allowed int
	earlier int // changes of the previous run, and items that were given up, which count while items are held
}

// claim is the claim of an item that is going to change its row.
type claim struct {
	item  *workqueue.Item
	state claimState
	plan  uint64 // the first plan that shows it
}

// claimState is whether and why an item may change its row.
type claimState uint8

const (
	undecided claimState = iota
	admitted             // it may change the row, and may retry when it fails, unless it would strand rows by then
	approved             // it may change the row because the change was approved, and is not counted
)

// newCounter returns a counter, or nil if the limit is off.
func newCounter(limit ChangeLimit, kind pool.Kind) *counter {
	if limit.Off {
		return nil
	}
	return &counter{limit: limit, kind: kind, claims: map[string]*claim{}, tally: newTally(limit.Window)}
}

// len returns the number of rows that count.
func (c *counter) len() int { return c.tally.len() + c.earlier }

// exceeded reports whether too many rows count, given the number of rows in the table.
func (c *counter) exceeded(rows int) bool {
	if c.holding {
		return c.len() > c.allowed
	}
	return c.len() > c.allowedOf(rows)
}

// allowedOf returns how many rows may be changed, given the number of rows in the table.
func (c *counter) allowedOf(rows int) int {
	return c.tally.allowed(c.limit, c.all(rows))
}

// all returns how many rows there are, those that were deleted within the window included, given the number of rows in the table.
func (c *counter) all(rows int) int {
	if c.kind == pool.Delete {
		rows += c.len()
	}
	return rows
}

// hold begins to hold undecided items.
func (c *counter) hold(rows int, now time.Time) {
	c.holdAt(c.allowedOf(rows), now)
}

// holdAt begins to hold undecided items, of which so many are allowed.
func (c *counter) holdAt(allowed int, now time.Time) {
	c.allowed, c.holding, c.since = allowed, true, now
	c.tally.keep(true)
}

// release ends what hold began.
func (c *counter) release() {
	c.holding, c.limited, c.unknown, c.strands, c.stranded, c.allowed, c.earlier = false, false, false, "", nil, 0, 0
	c.tally.keep(false)
}

// why returns why items are held.
func (c *counter) why() string {
	switch {
	case c.strands == "":
		return fmt.Sprintf("%vs of %v", c.kind, c.excess())
	case c.limited:
		return fmt.Sprintf("%s, and %vs of %v", c.strands, c.kind, c.excess())
	}
	return c.strands
}

// text returns what held items wait for.
func (c *counter) text() string {
	why := c.strands
	if why == "" {
		why = c.excess()
	}
	return fmt.Sprintf("until its %v is approved: %s", c.kind, why)
}

// holdsOrphans reports whether an undecided item is an orphan.
func (c *counter) holdsOrphans() bool {
	for _, item := range c.claims {
		if item.state == undecided && item.item.Orphan {
			return true
		}
	}
	return false
}

// excess describes what exceeds the limit.
func (c *counter) excess() string {
	if c.unknown {
		return "what an earlier run made, which may still be wanted"
	}
	return c.limit.String()
}

// rowsToChange returns the rows of all items that were not approved.
func (c *counter) rowsToChange() (rows []*store.Entry) {
	for _, item := range c.claims {
		if item.state != approved {
			rows = append(rows, item.item.Entry)
		}
	}
	return rows
}

// held returns what a [Memory] has to store.
func (c *counter) held() *HeldDeletes {
	if !c.holding {
		return nil
	}
	return &HeldDeletes{Done: c.len() - c.undecided, Allowed: c.allowed, Stranding: !c.limited}
}

// claim adds an item that is going to change its row.
func (c *counter) claim(it *workqueue.Item, plan uint64) {
	c.claims[it.Key] = &claim{it, undecided, plan}
	c.undecided++
	c.tally.want(it.Key)
}

// giveUp removes an item. An earlier change of its row still counts.
func (c *counter) giveUp(key string) {
	switch c.claims[key].state {
	case undecided:
		c.undecided--
		c.tally.unwant(key)
	case admitted:
		c.tally.unwant(key)
	case approved:
	}
	delete(c.claims, key)
}

// admit admits an item that is undecided or admitted.
func (c *counter) admit(item *claim) {
	if item.state == undecided {
		item.state = admitted
		c.undecided--
	}
}

// retract makes an item that is undecided or admitted undecided.
func (c *counter) retract(item *claim) {
	if item.state == admitted {
		item.state = undecided
		c.undecided++
	}
}

// approve admits the undecided items of all plans up to the given one, and returns their number.
func (c *counter) approve(plan uint64) (n int) {
	for key, item := range c.claims {
		if item.state == undecided && item.plan <= plan {
			item.state = approved
			c.undecided--
			c.tally.unwant(key)
			n++
		}
	}
	return n
}

// succeeded counts the change of an admitted item.
func (c *counter) succeeded(key string, now time.Time) {
	switch c.claims[key].state {
	case undecided:
		return
	case admitted:
		c.tally.change(key, now)
	case approved:
	}
	delete(c.claims, key)
}

// deciding reports whether the next undecided item may be admitted.
func (c *counter) deciding() bool { return !c.holding && c.undecided > 0 }
