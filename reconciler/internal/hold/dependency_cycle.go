package hold

import (
	"slices"
	"strings"

	"github.com/statehive/statehive/internal/store"
)

// wait records that a row waits for another row of its table. A row waits for one row at a time, so
// rows that wait for each other for ever are in a cycle, or wait for a row in a cycle.
type wait struct {
	next    string // encoded key of the row that it waits for
	because *tableChecker
	known   bool // the row is known to be in a cycle: its reason names the cycle, or it was released to update its reason
}

const (
	// maxCycle is the largest number of rows of a cycle that is found.
	maxCycle = 1000
	// maxCycleNames is how many rows of a cycle are named.
	maxCycleNames = 10
)

// cycle describes the cycle in which a row waits for itself, or returns "". The last row that begins
// to wait closes the cycle, so cycle releases the other rows whose reasons do not name it yet.
func (c *Checker) cycle(txn store.ReadTxn, key string) string {
	keys := c.cycleOf(txn, key)
	if keys == nil {
		return ""
	}
	c.waits[key].known = true
	var names, unaware []string
	for i, k := range keys {
		if i < maxCycleNames {
			names = append(names, c.nameOf(txn, k))
		}
		if w := c.waits[k]; !w.known {
			w.known = true
			unaware = append(unaware, k)
		}
	}
	c.of.release(unaware)
	if len(keys) > maxCycleNames {
		names = append(names, "...")
	}
	names = append(names, names[0])
	return ", in a cycle of rows that wait for each other: " + strings.Join(names, " -> ")
}

// endCycle releases the rows of the cycle that a row was known to be part of, if the row no longer
// waits as before: their reasons may still name the cycle.
func (c *Checker) endCycle(key string, before *wait) {
	if before == nil || !before.known {
		return
	}
	if now := c.waits[key]; now != nil && now.known && now.next == before.next {
		return
	}
	var others []string
	for k := before.next; k != key && c.waits[k] != nil && c.waits[k].known; k = c.waits[k].next {
		c.waits[k].known = false
		others = append(others, k)
	}
	c.of.release(others)
}

// cycleOf returns the encoded keys of the rows of a cycle, beginning with the given one, or nil if
// that row is in no cycle.
func (c *Checker) cycleOf(txn store.ReadTxn, key string) (keys []string) {
	for k := key; len(keys) < maxCycle; {
		w := c.waits[k]
		if w == nil {
			return nil
		}
		keys = append(keys, k)
		if k = w.next; k != key {
			continue
		}
		// The records of rows that have changed since may be wrong.
		if slices.ContainsFunc(keys, func(k string) bool { return !c.waits[k].holds(txn, k) }) {
			return nil
		}
		return keys
	}
	return nil
}

// holds reports whether a row still has to wait as w records.
func (w *wait) holds(txn store.ReadTxn, key string) bool {
	t := w.because
	row := t.Table.FindKey(txn, []byte(key))
	if row == nil {
		return false
	}
	if t.ask(txn, row) != nil {
		return false
	}
	for _, q := range t.queries {
		for dep := range t.Table.List(txn, q, nil).Entries() {
			if string(dep.Key()) == w.next {
				_, blocked := t.blocks(txn, dep)
				return blocked
			}
		}
	}
	return false
}

func (c *Checker) nameOf(txn store.ReadTxn, key string) string {
	table := c.of.owner.Table
	return table.KeyText(table.FindKey(txn, []byte(key)))
}
