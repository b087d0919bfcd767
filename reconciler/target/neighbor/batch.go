package neighbor

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// updates applies several rows together. Each step sends the requests of all rows in a few
// batches: entries are added, entries that turn out to exist are compared with their rows,
// and entries that differ are replaced.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	wants   []wanted
	results []reconciler.BatchResult
}

// wanted is a normalized row with the index of its device and the existing entry with its
// key. The entry is the zero value if nobody has made one.
type wanted struct {
	row   Neighbor
	index int
	is    Seen
}

func (w wanted) key() SeenKey { return SeenKey{w.index, w.row.Address} }

func (t *Target) newUpdates(ctx context.Context, rows int) *updates {
	return &updates{target: t, ctx: ctx, wants: make([]wanted, rows), results: make([]reconciler.BatchResult, rows)}
}

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, rows []Neighbor) []reconciler.BatchResult {
	u := t.newUpdates(ctx, len(rows))
	u.look(rows)
	u.request()
	return u.results
}

// look looks up the existing entries of rows.
func (u *updates) look(rows []Neighbor) {
	there, err := u.target.entries(u.ctx, u.target.mirror.Load().View(u.ctx))
	links := &rtnl.Indexes{Conn: u.target.conn, Allowed: u.target.config.Allowed}
	for i, row := range rows {
		if u.results[i].Err = errors.Join(err, u.ctx.Err()); u.results[i].Err == nil {
			u.results[i].Err = u.lookAt(i, row, links, there)
		}
	}
}

func (u *updates) lookAt(at int, row Neighbor, links *rtnl.Indexes, there entries) error {
	row, err := row.Normalized()
	if err != nil {
		return reconciler.Terminal(err)
	}
	link, err := links.Link(u.ctx, row.Device)
	if err == nil {
		err = row.checkLink(link)
	}
	if err != nil {
		return fmt.Errorf("neighbor %s: %w", row.Key(), err)
	}
	w := wanted{row: row, index: link.Index}
	w.is = there(w.key())
	u.wants[at] = w
	return row.check(w.is)
}

// due returns the rows that have to be applied: those without an entry and those whose entry
// differs.
func (u *updates) due() (absent, taken []int) {
	for at, w := range u.wants {
		switch {
		case u.results[at].Err != nil, len(w.row.compare(w.is)) == 0:
		case w.is.exists():
			taken = append(taken, at)
		default:
			absent = append(absent, at)
		}
	}
	return absent, taken
}

// request sends the requests for the rows that have to be applied.
func (u *updates) request() {
	absent, taken := u.due()
	u.replace(u.lookCloser(append(taken, u.add(absent)...)))
}

// add creates entries whose keys are free, and returns the rows whose keys are taken.
func (u *updates) add(absent []int) (taken []int) {
	requests := make([]rtnl.Request, len(absent))
	for n, at := range absent {
		requests[n] = u.wants[at].key().addition(unix.NLM_F_EXCL, unix.NUD_PERMANENT, u.wants[at].row.MAC)
	}
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		if errors.Is(err, syscall.EEXIST) {
			taken = append(taken, absent[n])
		} else {
			u.done(absent[n], "add", err)
		}
	}
	return taken
}

// lookCloser asks the kernel for the existing entries of rows: the kernel may have learned
// them, and their owner may have changed without a notification. It returns the rows whose
// entries have to be replaced.
func (u *updates) lookCloser(taken []int) (replace []int) {
	for _, at := range taken {
		w, err := &u.wants[at], error(nil)
		if w.is, err = u.target.lookUp(u.ctx, w.key()); err != nil {
			u.done(at, "look up", err)
			continue
		}
		if u.results[at].Err = w.row.check(w.is); u.results[at].Err == nil && len(w.row.compare(w.is)) > 0 {
			replace = append(replace, at)
		}
	}
	return replace
}

// replace replaces entries. The kernel does not announce a change that affects only the
// owner, so the state of an entry that is taken over is also changed for a moment, to
// an equivalent one.
func (u *updates) replace(rows []int) {
	var at []int // the row of each request
	var requests []rtnl.Request
	for _, i := range rows {
		w := u.wants[i]
		if w.is.exists() && w.is.Protocol != rtnl.Ours {
			at, requests = append(at, i), append(requests, w.key().addition(unix.NLM_F_REPLACE, unix.NUD_NOARP, w.row.MAC))
		}
		at, requests = append(at, i), append(requests, w.key().addition(unix.NLM_F_REPLACE, unix.NUD_PERMANENT, w.row.MAC))
	}
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		u.done(at[n], "replace", err)
	}
}

// done records the outcome of a request for a row.
func (u *updates) done(at int, verb string, err error) {
	if err != nil {
		u.results[at].Err = fmt.Errorf("%s neighbor %s: %w", verb, u.wants[at].row.Key(), err)
		return
	}
	u.results[at].Result.Changed = true
}

// DeleteBatch implements reconciler.BatchTarget. It does not check whether devices are
// allowed: an entry that carries our mark is ours.
func (t *Target) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []Neighbor) []error {
	outcomes := make([]error, len(rows))
	known := t.mirror.Load().Settled(ctx)
	links := &rtnl.Indexes{Conn: t.conn}
	var at []int // the place in rows of each request
	var requests []rtnl.Request
	for i, row := range rows {
		switch s, err := t.find(ctx, row, links); {
		case err != nil:
			outcomes[i] = fmt.Errorf("remove neighbor %s: %w", row.Key(), err)
		case s.isOurs():
			named, _ := known.Get(SeenByKey.Query(s.key()))
			if key, ok := t.declared(txn, named); ok && key != row.Key() {
				continue // under another name of its device
			}
			at, requests = append(at, i), append(requests, s.key().request(unix.RTM_DELNEIGH, 0))
		}
	}
	for n, err := range t.conn.Execute(ctx, requests) {
		if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENODEV) {
			outcomes[at[n]] = fmt.Errorf("remove neighbor %s: %w", rows[at[n]].Key(), err)
		}
	}
	return outcomes
}

// find asks the kernel for the entry with the key of a row, and returns the zero value if
// there is none. A mirror's table is not reliable enough for removing an entry: see
// [updates.lookCloser].
func (t *Target) find(ctx context.Context, row Neighbor, links *rtnl.Indexes) (s Seen, err error) {
	if err := ctx.Err(); err != nil {
		return s, err
	}
	if !row.hasKey() {
		return s, nil // no entry can have such a key
	}
	index, err := links.Of(ctx, row.Device)
	switch {
	case errors.Is(err, syscall.ENODEV):
		return s, nil // it vanished with its device
	case err != nil:
		return s, err
	}
	s, err = t.lookUp(ctx, SeenKey{index, row.Address})
	if errors.Is(err, syscall.ENODEV) {
		return s, nil
	}
	return s, err
}
