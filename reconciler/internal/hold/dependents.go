package hold

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/statehive/statehive/internal/store"
)

// Dependencies tracks the rows that wait because of each dependency of a reconciler, and
// releases them. Make it with [NewDependencies]; the policy is a [Checker].
type Dependencies struct {
	owner   Owner
	all     []tracked
	release func(keys []string)
}

// tracked is a dependency with the rows that wait because of it.
type tracked struct {
	*Dependency
	*dependents
	indexes *indexSet
}

// NewDependencies returns the dependencies of a reconciler. Its release is called with the
// encoded keys of rows that may run again, from any goroutine.
func NewDependencies(owner Owner, on []Dependency, release func(keys []string)) *Dependencies {
	d := &Dependencies{owner: owner, release: func(keys []string) {
		if len(keys) > 0 {
			release(keys)
		}
	}}
	for i := range on {
		d.all = append(d.all, tracked{
			&on[i], &dependents{rows: map[string]map[string]string{}, again: map[string]func(store.ReadTxn) string{}}, &indexSet{},
		})
	}
	return d
}

// Follow returns a function that releases rows when one of the dependencies changes, from now
// on until the context ends.
func (d *Dependencies) Follow(i int) func(context.Context) {
	t := d.all[i]
	cursor := t.Table.Changes(t.Table.Revision(d.owner.DB.ReadTxn()))
	var observed []func(context.Context)
	for _, o := range t.Observed {
		observed = append(observed, o.follow(d.owner.DB, func(txn store.ReadTxn) { d.release(t.takeOther(txn)) }))
	}
	return func(ctx context.Context) {
		defer cursor.Close()
		var following sync.WaitGroup
		defer following.Wait()
		for _, follow := range observed {
			following.Go(func() { follow(ctx) })
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-cursor.Watch(): // nil once the table has been dropped
				d.release(t.takeChanged(cursor, d.owner.DB.ReadTxn()))
			}
		}
	}
}

// takeChanged takes the rows that wait for a row that has changed, even if that row is still not
// done, because the text of what they wait for may be outdated.
func (t tracked) takeChanged(cursor *store.Cursor, txn store.ReadTxn) (keys []string) {
	for change := range cursor.Changes(txn) {
		if change.Kind == store.Reset {
			keys = append(keys, t.takeAll()...)
		} else {
			keys = append(keys, t.take(string(change.Entry.Key()))...)
		}
	}
	if cursor.Err() != nil { // the table was dropped
		return t.takeAll()
	}
	if initialized, _ := t.Table.Initialized(txn); initialized {
		keys = append(keys, t.take("")...)
	}
	return keys
}

// dependents are the rows that wait for rows of a table. It is safe for concurrent use.
type dependents struct {
	mu sync.Mutex
	// rows has the text of the blocker, by the encoded key of the blocker and then of the
	// waiting row.
	rows  map[string]map[string]string
	again map[string]func(store.ReadTxn) string // [blocker].again, by encoded key of the blocker
}

func (d *dependents) add(b blocker, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rows[b.key] == nil {
		d.rows[b.key] = map[string]string{}
	}
	d.rows[b.key][key] = b.text
	if b.again != nil {
		d.again[b.key] = b.again
	}
}

// take removes and returns the rows that wait for a row.
func (d *dependents) take(blocker string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := sortedKeys(d.rows[blocker])
	delete(d.rows, blocker)
	delete(d.again, blocker)
	return keys
}

func (d *dependents) takeAll() (keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, rows := range d.rows {
		keys = append(keys, sortedKeys(rows)...)
	}
	clear(d.rows)
	clear(d.again)
	return keys
}

// takeOther removes and returns the rows whose blocker has another text in a snapshot.
func (d *dependents) takeOther(txn store.ReadTxn) (keys []string) {
	d.mu.Lock()
	again := maps.Clone(d.again)
	d.mu.Unlock()
	for _, blocker := range sortedKeys(again) {
		text := again[blocker](txn)
		d.mu.Lock()
		for _, key := range sortedKeys(d.rows[blocker]) {
			if d.rows[blocker][key] != text {
				keys = append(keys, key)
				delete(d.rows[blocker], key)
			}
		}
		if len(d.rows[blocker]) == 0 {
			delete(d.rows, blocker)
			delete(d.again, blocker)
		}
		d.mu.Unlock()
	}
	return keys
}

// sortedKeys returns the keys of a map in order, which makes the order of operations reproducible.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
