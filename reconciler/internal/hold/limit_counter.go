package hold

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
)

// counter counts the changes of one kind, by row, for a [ChangeLimiter]. Rows are known by
// their encoded keys.
type counter struct {
	limit  ChangeLimit
	kind   pool.Kind
	text   string            // what items wait for
	claims map[string]*claim // of the items that it counts

	rows      map[string]counted  // changed within the window, or to be changed
	ahead     map[string]struct{} // to be changed too, but still in the feed
	past      []change            // what was changed, in order of time
	undecided int                 // items that are neither admitted nor approved
	holding   bool                // these are held
	since     time.Time
}

// claim is an item that is to change its row.
type claim struct {
	state claimState
	plan  uint64 // the first that shows it
}

// claimState is whether an item may change its row.
type claimState uint8

const (
	undecided claimState = iota
	admitted             // it may, also again when it fails
	approved             // it may because someone said so, and is not counted
)

// counted is a row that counts as changed.
type counted struct {
	at     time.Time // when it was changed; zero: it was not
	wanted bool      // there is an item that is to change it
}

type change struct {
	key string
	at  time.Time
}

// newCounter returns nil if there is no limit.
func newCounter(limit ChangeLimit, kind pool.Kind) *counter {
	if limit.Off {
		return nil
	}
	return &counter{
		limit: limit, kind: kind, text: fmt.Sprintf("until its %v is approved: %v", kind, limit),
		claims: map[string]*claim{}, rows: map[string]counted{}, ahead: map[string]struct{}{},
	}
}

// len returns how many rows count.
func (c *counter) len() int { return len(c.rows) + len(c.ahead) }

// exceeded reports whether too many rows count, of a table that has so many.
func (c *counter) exceeded(rows int) bool {
	n := c.len()
	if c.kind == pool.Delete {
		rows += n // they were in the table
	}
	return n > c.limit.Rows && float64(n)*100 > c.limit.Percent*float64(rows)
}

// claim counts an item that is to change its row.
func (c *counter) claim(key string, plan uint64) {
	c.claims[key] = &claim{undecided, plan}
	c.undecided++
	delete(c.ahead, key)
	row := c.rows[key]
	row.wanted = true
	c.rows[key] = row
}

// giveUp forgets an item. That its row was changed before still counts.
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

// unwant notes that a row is not to be changed any more.
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

// approve lets through the items of plans up to one, and returns how many there were.
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

// succeeded counts the change of an item that was let through.
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

// expire forgets what was changed before the window.
func (c *counter) expire(now time.Time) {
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

// expect counts a change that was not taken from the feed yet.
func (c *counter) expect(key string) {
	if _, known := c.rows[key]; !known {
		c.ahead[key] = struct{}{}
	}
}

// deciding reports whether items may run that are not decided about.
func (c *counter) deciding() bool { return !c.holding && c.undecided > 0 }
