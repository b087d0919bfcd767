package hold

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// counter counts the changes of one kind for a [ChangeLimiter]: each row once, by encoded key.
type counter struct {
	limit  ChangeLimit
	kind   pool.Kind
	claims map[string]*claim // the claims of the items that it counts

	rows      map[string]counted  // changed within the window, or to be changed
	ahead     map[string]struct{} // rows to be changed whose change is still in the feed
	past      []change            // the changes within the window, in order of time
	before    lowest              // how many rows there were
	undecided int                 // items that are neither admitted nor approved
	holding   bool                // undecided items are held
	strands   string              // the rows that they would strand, if these are too many: see Member.strands
	since     time.Time           // when holding became true
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
	admitted             // it may change the row, and may retry when it fails
	approved             // it may change the row because the change was approved, and is not counted
)

// counted is a row that counts as changed.
type counted struct {
	at     time.Time // when it was last changed; zero: it was not
	wanted bool      // an item is going to change it
}

// change is a row that was changed.
type change struct {
	key string
	at  time.Time
}

// newCounter returns a counter, or nil if the limit is off.
func newCounter(limit ChangeLimit, kind pool.Kind) *counter {
	if limit.Off {
		return nil
	}
	return &counter{
		limit: limit, kind: kind,
		claims: map[string]*claim{}, rows: map[string]counted{}, ahead: map[string]struct{}{}, before: lowest{window: limit.Window},
	}
}

// len returns the number of rows that count.
func (c *counter) len() int { return len(c.rows) + len(c.ahead) + c.earlier }

// exceeded reports whether too many rows count, given the number of rows in the table.
func (c *counter) exceeded(rows int) bool {
	if c.holding {
		return c.len() > c.allowed
	}
	return c.len() > c.allowedOf(rows)
}

// allowedOf returns how many rows may be changed, given the number of rows in the table.
func (c *counter) allowedOf(rows int) int {
	rows = c.all(rows)
	before := c.before.of(rows)
	if part := c.limit.of(before); part < before {
		return part
	}
	return c.limit.of(rows) // even if all of the rows that were there before are changed
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
	c.allowed = c.allowedOf(rows) // while holding is false
	c.holding, c.since = true, now
}

// release ends what hold began.
func (c *counter) release() { c.holding, c.strands, c.allowed, c.earlier = false, "", 0, 0 }

// why returns why items are held.
func (c *counter) why() string {
	if c.strands != "" {
		return c.strands
	}
	return fmt.Sprintf("%vs of %v", c.kind, c.limit)
}

// text returns what held items wait for.
func (c *counter) text() string {
	why := c.strands
	if why == "" {
		why = c.limit.String()
	}
	return fmt.Sprintf("until its %v is approved: %s", c.kind, why)
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
	return &HeldDeletes{Done: c.len() - c.undecided, Allowed: c.allowed}
}

// claim adds an item that is going to change its row.
func (c *counter) claim(it *workqueue.Item, plan uint64) {
	key := it.Key
	c.claims[key] = &claim{it, undecided, plan}
	c.undecided++
	delete(c.ahead, key)
	row := c.rows[key]
	row.wanted = true
	c.rows[key] = row
}

// giveUp removes an item. An earlier change of its row still counts.
func (c *counter) giveUp(key string) {
	switch c.claims[key].state {
	case undecided:
		c.undecided--
		c.unwant(key)
	case admitted:
		c.unwant(key)
	case approved:
	}
	delete(c.claims, key)
}

// unwant records that a row is no longer going to be changed.
func (c *counter) unwant(key string) {
	row := c.rows[key]
	if row.wanted = false; row.at.IsZero() {
		delete(c.rows, key)
	} else {
		c.rows[key] = row
	}
}

func (c *counter) admit(item *claim) {
	item.state = admitted
	c.undecided--
}

// approve admits the undecided items of all plans up to the given one, and returns their number.
func (c *counter) approve(plan uint64) (n int) {
	for key, item := range c.claims {
		if item.state == undecided && item.plan <= plan {
			item.state = approved
			c.undecided--
			c.unwant(key)
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
		c.rows[key] = counted{at: now}
		c.past = append(c.past, change{key, now})
	case approved:
	}
	delete(c.claims, key)
}

// expire forgets changes older than the window, unless items are held.
func (c *counter) expire(now time.Time) {
	c.before.expire(now)
	if c.holding {
		return
	}
	n := 0
	for ; n < len(c.past) && now.Sub(c.past[n].at) > c.limit.Window; n++ {
		old := c.past[n]
		if row := c.rows[old.key]; row.at.Equal(old.at) {
			row.at = time.Time{}
			c.rows[old.key] = row
			if !row.wanted {
				delete(c.rows, old.key)
			}
		}
	}
	if c.past = c.past[n:]; len(c.past) == 0 {
		c.past = nil
	}
}

// expect counts a change that is still in the feed.
func (c *counter) expect(key string) {
	if _, known := c.rows[key]; !known {
		c.ahead[key] = struct{}{}
	}
}

// deciding reports whether the next undecided item may be admitted.
func (c *counter) deciding() bool { return !c.holding && c.undecided > 0 }
