package hold

import (
	"slices"
	"strings"

	"github.com/statehive/statehive/internal/store"
)

// wait is that a row waits for another one of its table. A row waits for one at a time, so those
// that wait for each other for ever are in a cycle, or wait for one that is.
type wait struct {
	next    string // encoded key of the row that it waits for
	because *tableChecker
	known   bool // to be part of a cycle: the reason says so, or the row was released to say so
}

const (
	// maxCycle is how many rows a cycle may have to be found.
	maxCycle = 1000
	// maxCycleNames is how many of them are named.
	maxCycleNames = 10
)

// cycle describes the cycle in which a row waits for itself, or returns "". It releases the other
// rows of the cycle that do not know of it, which is closed by the last one that begins to wait.
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

// endCycle releases the rows of the cycle that a row was known to be part of, if it does not wait
// any more as it did before: they may say that they are in it.
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
// that is in none.
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
		// What is known of rows that have changed since may be wrong.
		if slices.ContainsFunc(keys, func(k string) bool { return !c.waits[k].holds(txn, k) }) {
			return nil
		}
		return keys
	}
	return nil
}

// holds reports whether a row has to wait as w says.
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
