package hold

import (
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

const (
	// MaxOrderDelay is the longest time that a delete waits for the deletes of dependents, not counting the
	// time in which some of those are paused or need an approval.
	MaxOrderDelay = 5 * time.Minute
	// maxReplaceDelay is the same for an update that replaces what a row has in the target, once those deletes are known: one of
	// them may wait for a row that waits for the update.
	maxReplaceDelay = 5 * time.Second
)

// Replaces returns the row that an update would first remove from the target, or nil if it would not remove one.
type Replaces func(txn store.ReadTxn, row *store.Entry) (was *store.Entry)

// Order is the policy that holds the delete of a row until the reconcilers of its group have
// deleted the rows that depend on it, and until rows that have to be there before are not pending
// any more. It holds updates that replace a row in the same way.
type Order struct {
	owner    Owner
	member   *Member
	on       []Dependency
	after    []awaited
	last     *DeletesLast           // nil: deletes do not wait for unrelated updates
	replaces Replaces               // may be nil
	waiting  map[string]orderedItem // by encoded key
	text     []byte                 // reused buffer

	unapplied unapplied
	awaited   bool // a delete waits for one of unapplied
	relieved  bool // a row has failed that may need one of these deletes
}

// orderedItem is a delete, or an update that replaces a row, that waits for the deletes of dependents.
type orderedItem struct {
	since     time.Time
	revision  store.Revision             // of the table, when first held
	revisions map[*Member]store.Revision // see Member.revisions
	on        obstacle
}

// A delete that waits for a pending row looks again after a tenth of the time that it has waited, within these limits, and less often if
// many wait: looking must not take the time that the pending rows need.
const (
	pendingRetry    = 100 * time.Millisecond
	maxPendingRetry = 5 * time.Second
	retryPerWait    = 50 * time.Microsecond
)

// NewOrder returns the policy for a member of a group, which may be nil: then no deletes of dependents are waited for.
func NewOrder(owner Owner, member *Member, on, after []Dependency, last *DeletesLast, replaces Replaces) *Order {
	o := &Order{owner: owner, member: member, on: on, last: last, replaces: replaces, waiting: map[string]orderedItem{}}
	for _, d := range after {
		o.after = append(o.after, awaited{Dependency: d})
	}
	return o
}

// Holds implements [Policy].
func (o *Order) Holds(t *pool.Task, txn store.ReadTxn, now time.Time) (Reason, bool) {
	if t.Kind == pool.Update {
		return o.holdsUpdate(t, txn, now)
	}
	if o.member == nil && len(o.after) == 0 && o.last == nil {
		return Reason{}, false
	}
	it := t.Item
	wait, known := o.waiting[it.Key]
	if !known {
		if wait.since = now; o.member != nil {
			wait.revisions = o.member.revisions(txn)
		}
	}
	if wait.revision == 0 { // nor while an update of the row waited
		wait.revision = o.owner.Table.Revision(txn)
	}
	text := ""
	if !it.AtOnce {
		if text = o.pending(it, t.Entry, txn); text == "" {
			text = o.unappliedRow(it, t.Entry, wait, txn)
		}
	}
	if text != "" {
		wait.on = obstacle{text: text, awaits: true}
		o.waiting[it.Key] = wait
		again := max(pendingRetry, now.Sub(wait.since)/10, time.Duration(len(o.waiting))*retryPerWait)
		return Reason{workqueue.Order, text, now.Add(min(again, maxPendingRetry))}, true
	}
	if o.member == nil {
		return Reason{}, false
	}
	return o.waits(t, wait, t.Entry, it.Orphan, now)
}

// holdsUpdate holds an update that replaces a row. What may have been deleted while the reconciler did not run is not known
// before the others have searched for their orphans, so it waits for that like the delete of an orphan.
func (o *Order) holdsUpdate(t *pool.Task, txn store.ReadTxn, now time.Time) (Reason, bool) {
	key := t.Item.Key
	was := o.Replaced(txn, t.Entry)
	if was == nil {
		delete(o.waiting, key)
		return Reason{}, false
	}
	wait, known := o.waiting[key]
	if !known {
		wait.since, wait.revisions = now, o.member.revisions(txn)
	}
	why, held := o.waits(t, wait, was, true, now)
	if !held {
		delete(o.waiting, key)
	}
	return why, held
}

// Replaced returns the row that an update would first remove from the target. It returns nil if it would not remove one, or if
// nobody has to be waited for.
func (o *Order) Replaced(txn store.ReadTxn, row *store.Entry) (was *store.Entry) {
	if o.replaces == nil || o.member == nil {
		return nil
	}
	_ = pool.Guard(func() { was = o.replaces(txn, row) }) // Update will say what is wrong with the row
	return was
}

// limit returns how long an operation waits for an obstacle, not counting the time in which it is unlimited.
func (on obstacle) limit(kind pool.Kind) time.Duration {
	if kind == pool.Update && on.delete {
		return maxReplaceDelay
	}
	return MaxOrderDelay
}

// unlimited reports whether the wait of an operation for an obstacle has no limit. What waits for a pending row is still there because
// it is needed, and so is what it needs; but the pending row may wait for an update.
func (on obstacle) unlimited(kind pool.Kind) bool {
	return on.parked || on.awaits && kind == pool.Delete
}

// waits holds an operation for the deletes of rows that depend on a row, up to a limit.
func (o *Order) waits(t *pool.Task, wait orderedItem, row *store.Entry, orphan bool, now time.Time) (Reason, bool) {
	table, key := o.owner.Table, t.Item.Key
	on, blocked := o.member.blocker(row, indexKey{table, table.Primary().Name, key}, wait.revisions, orphan)
	limit := on.limit(t.Kind)
	if on.unlimited(t.Kind) || wait.on.unlimited(t.Kind) || limit < wait.on.limit(t.Kind) {
		wait.since = now
	}
	wait.on = on
	switch {
	case !blocked:
		return Reason{}, false
	case now.Sub(wait.since) >= limit:
		o.owner.Logger.Warn("removed out of order after waiting too long",
			"reconciler", o.owner.Name, "key", table.KeyText(row), "waitsFor", on.text)
		return Reason{}, false
	}
	o.waiting[key] = wait
	return Reason{workqueue.Order, on.text, wait.since.Add(limit)}, true
}

// NoteGate updates the group's record of whether the delete of an item is parked or awaits a pending row, after the gate has
// held it for a reason, or has let it through, which is the zero reason.
func (o *Order) NoteGate(t *pool.Task, why Reason) {
	if o.member == nil || t.Kind != pool.Delete {
		return
	}
	key := t.Item.Key
	var on obstacle
	if why.Stage == workqueue.Order {
		on = o.waiting[key].on
	}
	o.member.setParked(key, on.parked || why.Stage == workqueue.Paused || why.Stage == workqueue.Limit, on.awaits)
}

// Note updates the group's record of whether the row of an item has to be deleted.
func (o *Order) Note(it *workqueue.Item) {
	if !it.Deleting {
		delete(o.waiting, it.Key)
	} else {
		o.Applied(it.Key)
	}
	switch {
	case o.member == nil || len(o.on) == 0:
		return
	case !it.Deleting:
		o.member.removeDelete(it.Key)
		return
	}
	var id any
	for i := range o.on {
		var key any
		if key, o.text, _ = o.on[i].key(it.Entry, o.text); key == nil { // the error is reported for the row itself
			key = string(o.text)
		}
		id = [2]any{id, key}
	}
	row := it.Entry
	named := func() (rows []namedRows) {
		txn := o.owner.DB.ReadTxn()
		for i := range o.on {
			rows = append(rows, o.on[i].named(txn, row)...)
		}
		return rows
	}
	o.member.setDelete(deletedRow{it.Key, id, named, row})
}

// deletedRow is a row that has to be deleted.
type deletedRow struct {
	key   string             // encoded
	id    any                // a key that is equal only for rows that name the same rows
	named func() []namedRows // the rows that it names
	entry *store.Entry
}

// deleteSet is a set of the rows that a reconciler has to delete, indexed by the rows that they
// name. Rows that name the same rows share one entry, because there may be many of them.
type deleteSet struct {
	table   *store.Table           // of the rows
	rows    map[string]*namingRows // by encoded key
	byID    map[any]*namingRows
	byName  map[indexKey]*namingSets
	indexes []namedRows // the indexes of the keys of byName; their key is empty
}

// namingRows is a group of rows to be deleted that name the same rows.
type namingRows struct {
	id    any
	named []namedRows
	rows  map[string]*namingRow // by encoded key
	order []*namingRow          // oldest first; some may have been removed from rows
}

type namingRow struct {
	key   string
	entry *store.Entry
}

func newDeleteSet(table *store.Table) deleteSet {
	return deleteSet{table: table, rows: map[string]*namingRows{}, byID: map[any]*namingRows{}, byName: map[indexKey]*namingSets{}}
}

// first returns the row that has been in the set for the longest time, ignoring the row with the key
// but, or nil if there is none.
func (s *namingRows) first(but string) *store.Entry {
	for s.removed(s.order[0]) {
		s.order = s.order[1:]
	}
	for _, row := range s.order {
		if !s.removed(row) && row.key != but {
			return row.entry
		}
	}
	return nil
}

func (s *namingRows) removed(row *namingRow) bool { return s.rows[row.key] != row }

func (s *namingRows) add(key string, e *store.Entry) {
	row := &namingRow{key, e}
	s.rows[key] = row
	if len(s.order) > 2*len(s.rows)+100 {
		s.order = slices.DeleteFunc(s.order, s.removed)
	}
	s.order = append(s.order, row)
}

// namingSets are groups that name the same row, oldest first. Groups without rows stay in it until they are half of it, since there
// may be many groups that name one row, such as all routes that need any address of a wide network.
type namingSets struct {
	sets  []*namingRows
	empty int // of sets
}

// first is like that of namingRows.
func (n *namingSets) first(but string) *store.Entry {
	if n == nil {
		return nil
	}
	for len(n.sets) > 0 && len(n.sets[0].rows) == 0 {
		n.sets, n.empty = n.sets[1:], n.empty-1
	}
	for _, set := range n.sets {
		if len(set.rows) == 0 {
			continue
		}
		if e := set.first(but); e != nil {
			return e
		}
	}
	return nil
}

// emptied notes that one of the groups has no rows any more, and reports whether that goes for all.
func (n *namingSets) emptied() (all bool) {
	if n.empty++; n.empty > len(n.sets)/2 {
		n.sets = slices.DeleteFunc(n.sets, func(set *namingRows) bool { return len(set.rows) == 0 })
		n.empty = 0
	}
	return len(n.sets) == 0
}

// naming returns a row of the set that names the given row, or nil. The result is the same as long
// as the set does not change. A row does not name itself.
func (d *deleteSet) naming(row *store.Entry, primary indexKey) *store.Entry {
	but := ""
	if d.table == primary.table {
		but = primary.key
	}
	if e := d.byName[primary].first(but); e != nil {
		return e
	}
	for _, in := range d.indexes {
		if in.table != primary.table || in.index == primary.index {
			continue
		}
		for key := range in.table.KeysOf(in.of, row.Row()) {
			in.key = string(key)
			if e := d.byName[in.indexKey].first(but); e != nil {
				return e
			}
		}
	}
	return nil
}

// set adds a row, or replaces it, and reports whether it used to name other rows.
func (d *deleteSet) set(row deletedRow) (renamed bool) {
	if before := d.rows[row.key]; before != nil {
		if before.id == row.id {
			before.rows[row.key].entry = row.entry
			return false
		}
		renamed, _ = d.remove(row.key)
	}
	set := d.byID[row.id]
	if set == nil {
		set = &namingRows{id: row.id, named: distinct(row.named()), rows: map[string]*namingRow{}}
		d.byID[set.id] = set
		for _, named := range set.named {
			if d.byName[named.indexKey] == nil {
				d.byName[named.indexKey] = &namingSets{}
			}
			d.byName[named.indexKey].sets = append(d.byName[named.indexKey].sets, set)
			d.use(named)
		}
	}
	d.rows[row.key] = set
	set.add(row.key, row.entry)
	return renamed
}

// distinct returns rows without those that are named again.
func distinct(rows []namedRows) []namedRows {
	known := make(map[indexKey]bool, len(rows))
	return slices.DeleteFunc(rows, func(row namedRows) bool {
		again := known[row.indexKey]
		known[row.indexKey] = true
		return again
	})
}

// use records the index that rows are named with.
func (d *deleteSet) use(named namedRows) {
	named.key = ""
	if !slices.ContainsFunc(d.indexes, func(in namedRows) bool { return in.indexKey == named.indexKey }) {
		d.indexes = append(d.indexes, named)
	}
}

// remove removes a row. It reports whether the row named any rows, and how many others are left that name the same ones.
func (d *deleteSet) remove(key string) (named bool, others int) {
	set := d.rows[key]
	if set == nil {
		return false, 0
	}
	delete(d.rows, key)
	if delete(set.rows, key); len(set.rows) > 0 {
		return len(set.named) > 0, len(set.rows)
	}
	delete(d.byID, set.id)
	for _, row := range set.named {
		if d.byName[row.indexKey].emptied() {
			delete(d.byName, row.indexKey)
		}
	}
	return len(set.named) > 0, 0
}
