package route

import (
	"context"
	"slices"
	"time"
)

// recheckRetry is how long to wait after a recheck that has failed.
const recheckRetry = time.Second

// changedBeside notes that a route of ours has changed whose key others have routes with, too, which may come before it now. That does not put
// the table in doubt: to find out takes a listing of all routes, of which there may be millions, and others can cause it all the time,
// as by router advertisements.
func (k *keeper) changedBeside(key Key) {
	if _, is := k.beside[key]; is {
		k.unsure = true
	}
}

// changedBefore notes that a route of others with the key of one of ours has changed or is gone, perhaps the only one before it.
func (k *keeper) changedBefore(ours Seen) { k.unsure = k.unsure || ours.Behind }

// markBehind marks the rows of routes that the kernel does not use because of those of others.
func (k *keeper) markBehind(ctx context.Context, rows []Seen) error {
	began := time.Now()
	at, tables := map[Key]int{}, map[listed]struct{}{}
	for i, s := range rows {
		if _, is := k.beside[s.Key]; is || k.anew {
			at[s.Key] = i
			tables[listed{s.Key.family(), s.Key.Table}] = struct{}{}
		}
	}
	beside := map[Key]struct{}{}
	for _, i := range at {
		rows[i].Behind = false
	}
	for which := range tables {
		states, err := k.target.listStates(ctx, which, func(key Key) bool { _, is := at[key]; return is })
		if err != nil {
			return err
		}
		for key, s := range states {
			if len(s.foreign) > 0 {
				beside[key] = struct{}{}
				rows[at[key]].Behind = s.behind
			}
		}
	}
	for key, i := range at {
		if _, was := k.beside[key]; was && !rows[i].Nexthops.IsZero() {
			beside[key] = struct{}{} // the kernel does not list routes of others that are between the next hops of ours
		}
	}
	for key := range k.beside {
		if _, here := at[key]; !here && k.target.isDeclared(key) {
			beside[key] = struct{}{} // a route of ours that is replaced may be away for a moment
		}
	}
	k.beside, k.anew, k.unsure = beside, false, false
	k.markAt = time.Now().Add(usable(time.Since(began)))
	return nil
}

// keepBehind marks the rows that were behind before.
func (k *keeper) keepBehind(rows []Seen) {
	if len(k.beside) == 0 && !k.anew {
		return
	}
	k.unsure = true
	txn := k.db.ReadTxn()
	for i, s := range rows {
		if _, is := k.beside[s.Key]; is {
			before, _, _ := k.table.Get(txn, SeenByKey.Query(s.Key))
			rows[i].Behind = before.Behind
		}
	}
}

// recheckAt returns when recheck is due, or the zero time.
func (k *keeper) recheckAt() time.Time {
	if !k.unsure {
		return time.Time{}
	}
	return k.markAt.Add(time.Nanosecond) // not zero
}

// recheck marks the rows with whose keys others have routes, too, and returns those that have changed.
func (k *keeper) recheck(ctx context.Context) (changed []Seen, err error) {
	txn := k.db.ReadTxn()
	var rows []Seen
	if k.anew {
		for s := range k.table.All(txn) {
			rows = append(rows, s)
		}
	} else {
		for key := range k.beside {
			if s, _, found := k.table.Get(txn, SeenByKey.Query(key)); found {
				rows = append(rows, s)
			}
		}
	}
	before := slices.Clone(rows)
	if err := k.markBehind(ctx, rows); err != nil {
		k.markAt = time.Now().Add(recheckRetry)
		return nil, err
	}
	for i, s := range rows {
		if s != before[i] {
			changed = append(changed, s)
		}
	}
	return changed, nil
}
