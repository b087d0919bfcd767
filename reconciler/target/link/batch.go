package link

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// updates applies several rows together. Each step sends the requests of all rows in
// a few batches.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	txn     statedb.ReadTxn
	rows    []Link
	states  []state
	results []reconciler.BatchResult

	// requests are the requests of the current step. For each of them, at has the place of its
	// row and does describes it in words.
	requests []rtnl.Request
	at       []int
	does     []string
}

// UpdateBatch implements reconciler.BatchTarget. It creates links first, because the
// other ends of new veth pairs may be rows of the same batch.
func (t *Target) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []Link) []reconciler.BatchResult {
	u := &updates{
		target: t, ctx: ctx, txn: txn, rows: make([]Link, len(rows)),
		states: make([]state, len(rows)), results: make([]reconciler.BatchResult, len(rows)),
	}
	for i, row := range rows {
		var err error
		if u.rows[i], err = row.Normalized(); err != nil {
			u.results[i].Err = reconciler.Terminal(err)
		}
	}
	u.create(u.look(func(row Link) bool { return row.Type != "" }))
	u.change(u.look(func(row Link) bool { return row.Type == "" }))
	u.compare()
	return u.results
}

// look looks up the existing links of some rows, and returns the places of the rows
// that can be applied.
func (u *updates) look(which func(Link) bool) (at []int) {
	l := u.target.looker(u.ctx)
	for i, row := range u.rows {
		if u.results[i].Err != nil || !which(row) {
			continue
		}
		s, err := l.lookFor(u.txn, row)
		if !s.shared && (s.renamed != nil || s.strayed) {
			if err = u.target.settle(u.ctx, u.txn, s); err == nil {
				l = u.target.looker(u.ctx)
				s, err = l.lookFor(u.txn, row)
			}
		}
		if err == nil {
			err = u.target.inherit(s)
		}
		if u.states[i], u.results[i].Err = s, err; err == nil && !s.shared {
			at = append(at, i)
		}
	}
	return at
}

// request adds a request to the step.
func (u *updates) request(i int, r rtnl.Request, does string) {
	u.requests, u.at, u.does = append(u.requests, r), append(u.at, i), append(u.does, does)
}

// execute sends the requests of the step. The error of a request is passed to explain, which
// returns the error to report for the row, or nil to ignore it.
func (u *updates) execute(explain func(i int, err error) error) {
	requests, at, does := u.requests, u.at, u.does
	u.requests, u.at, u.does = nil, nil, nil
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		i := at[n]
		if err != nil {
			err = explain(i, fmt.Errorf("%s: %w", does[n], err))
		}
		if err != nil {
			u.results[i].Err = errors.Join(u.results[i].Err, err)
		} else {
			u.results[i].Result.Changed = true
		}
	}
}

func asItIs(_ int, err error) error { return err }

// create creates missing links, recreates links of ours that have the wrong type or peer,
// and takes over links of others that rows adopt. Then it sets the attributes of all links. First it renames links, and other ends, that
// have another name than in their rows: recreating them would remove what others have on them.
func (u *updates) create(at []int) {
	at = u.rename(u.rename(at)) // first links, then their other ends
	var absent, there, wrong []int
	for _, i := range at {
		s := u.states[i]
		switch {
		case s.link == nil:
			absent = append(absent, i)
		case !s.created():
			u.states[i], u.results[i].Err = u.takeOver(s)
			there = append(there, i)
		case !s.isLike(u.rows[i]):
			wrong = append(wrong, i)
		default:
			there = append(there, i)
		}
	}
	wrong = u.rehearse(wrong)
	u.remove(wrong)
	made := u.make(append(absent, wrong...))
	u.lookAgain(there, made)
	u.change(append(there, made...))
}

// takeOver records that a link of others is ours from now on.
func (u *updates) takeOver(s state) (state, error) {
	link, err := looker{target: u.target, ctx: u.ctx}.byIndex(s.link.Index) // the kernel does not announce the alias of a link that is down
	if link != nil {
		s.link = link
	}
	if err != nil {
		return s, err
	}
	return u.target.keep(s, takenOver(s))
}

// rename gives links of ours, and their other ends, the names in their rows. It returns the places of the rows that can still be
// applied.
func (u *updates) rename(at []int) (rest []int) {
	l := looker{target: u.target, ctx: u.ctx} // the kernel does not announce the alias of a link that is down
	from := map[int]string{}                  // by the place of a row, the record of its link until now
	for _, i := range at {
		link, name, err := u.misnamed(l, i)
		if link != nil && err == nil {
			from[i] = u.rows[i].Name
			if name == u.rows[i].Name {
				from[i], err = u.target.takeRecord(u.states[i], link)
			}
		}
		if link != nil && err == nil {
			u.request(i, renaming(link.Index, name), fmt.Sprintf("rename link %s to %s", link.Name, name))
		}
		u.results[i].Err = err
	}
	u.execute(asItIs)
	for i, name := range from {
		if u.results[i].Err == nil && name != u.rows[i].Name {
			u.results[i].Err = u.target.records.Remove(name)
		}
		if u.results[i].Err == nil {
			u.states[i], u.results[i].Err = u.target.looker(u.ctx).lookFor(u.txn, u.rows[i])
		}
	}
	return slices.DeleteFunc(at, func(i int) bool { return u.results[i].Err != nil })
}

// takeRecord copies the record of a link to the name that it is about to get. It returns the name that the record has had.
func (t *Target) takeRecord(s state, link *Seen) (from string, err error) {
	if s.rec.Created != nil && s.rec.Created.Index == link.Index {
		return s.name, nil
	}
	rec, _ := t.records.Get(link.Name)
	return link.Name, t.records.Put(s.name, rec)
}

// misnamed returns the link that is to be renamed for a row, if there is one, and its name in the row.
func (u *updates) misnamed(l looker, i int) (link *Seen, name string, err error) {
	s, row := u.states[i], u.rows[i]
	switch {
	case s.link == nil && s.rec.Created != nil && s.rec.Created.Index != 0:
		link, err = l.renamed(s.rec)
		if link == nil || link.Type != row.Type || u.target.isDeclared(u.txn, link.Name) {
			return nil, "", err
		}
		return link, row.Name, err
	case s.link == nil && row.Type == Veth: // its document has given it another name
		end, err := l.byName(row.Peer)
		if end == nil || end.Peer == 0 || err != nil {
			return nil, "", err
		}
		link, err = l.byIndex(end.Peer)
		if link == nil || link.Alias != alias || u.target.isDeclared(u.txn, link.Name) || u.target.isUsed(u.txn, link.Name) {
			return nil, "", err
		}
		if rec, _ := u.target.records.Get(link.Name); rec.Created == nil || rec.Created.Index != link.Index {
			return nil, "", nil
		}
		return link, row.Name, nil
	case s.created() && s.link.Type == Veth && row.Type == Veth && s.peer != "" && s.peer != row.Peer:
		if holder, err := l.byName(row.Peer); holder != nil || err != nil {
			return nil, "", err
		}
		if u.target.borrows(u.txn, s.peer) {
			return nil, "", fmt.Errorf("link %s stays as it is: its other end is %s, which has a document of its own, and not %s", s.name, s.peer, row.Peer)
		}
		link, err = l.byIndex(s.link.Peer)
		return link, row.Peer, err
	}
	return nil, "", nil
}

// rehearse returns the places of the rows, of those whose links are to be recreated, for which that can succeed: links like
// theirs are created under other names. The others get an error and keep what they have.
func (u *updates) rehearse(at []int) (can []int) {
	l, freed := u.target.looker(u.ctx), map[int]bool{}
	for _, i := range at {
		freed[u.states[i].link.Index], freed[u.states[i].link.Peer] = true, true
	}
	peers := map[string]string{} // the links of peers
	for _, i := range at {
		row := u.rows[i]
		err := l.peerTaken(row, func(holder Seen) bool { return freed[holder.Index] })
		if other := peers[row.Peer]; other != "" && err == nil {
			err = fmt.Errorf("create %s %s: %s has the same peer, %s", row.Type, row.Name, other, row.Peer)
		}
		if row.Peer != "" {
			peers[row.Peer] = row.Name
		}
		trial := trialOf(row)
		switch {
		case err != nil:
			u.results[i].Err = cannotRecreate(row, err)
		case row.Type == Tun:
			u.rehearseTun(i, trial.Name)
		default:
			// The kernel handles both requests in one call, so no trial stays when the process dies.
			u.request(i, creation(trial, net.HardwareAddr{2, 0, 0, 0, 0, 0}), "create "+row.Type)
			u.request(i, deletionOf(trial.Name), "")
		}
	}
	u.execute(func(i int, err error) error {
		if err = unlessGone(err); err != nil {
			err = cannotRecreate(u.rows[i], err)
		}
		return err
	})
	return slices.DeleteFunc(at, func(i int) bool { return u.results[i].Err != nil })
}

func cannotRecreate(row Link, err error) error {
	return fmt.Errorf("link %s stays as it is, because it cannot be recreated: %w", row.Name, err)
}

// trialOf returns a row with the type and the size of another one, and with other names.
func trialOf(row Link) Link {
	sum := sha256.Sum256([]byte(row.Name))
	trial := Link{Name: fmt.Sprintf("trial%x", sum[:5]), Type: row.Type, MTU: row.MTU}
	if row.Type == Veth {
		trial.Peer = fmt.Sprintf("trial%x", sum[5:10])
	}
	return trial
}

// remove deletes links.
func (u *updates) remove(at []int) {
	for _, i := range at {
		u.request(i, u.states[i].deletion(), "delete link "+u.states[i].name)
	}
	u.execute(func(_ int, err error) error { return unlessGone(err) })
}

// unlessGone returns err, or nil if err says that the link does not exist.
func unlessGone(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// make creates links, each with a record that identifies it, and returns the places of the
// rows whose links it has created.
func (u *updates) make(at []int) (made []int) {
	var tuns []int
	for _, i := range at {
		row := u.rows[i]
		if u.results[i].Err != nil {
			continue
		}
		mac, err := randomMAC()
		if err == nil {
			err = u.target.records.Put(row.Name, record{Created: newlyCreated(row, mac)})
		}
		switch {
		case err != nil:
			u.results[i].Err = err
			continue
		case row.Type == Tun:
			tuns = append(tuns, i)
		default:
			u.request(i, creation(row, mac), fmt.Sprintf("create %s %s", row.Type, row.Name))
		}
		made = append(made, i)
	}
	u.execute(u.explainExists)
	u.makeTuns(tuns)
	return slices.DeleteFunc(made, func(i int) bool { return u.results[i].Err != nil })
}

// newlyCreated returns the record of a link that is about to be created.
func newlyCreated(row Link, mac net.HardwareAddr) *created {
	rec := &created{Type: row.Type, Before: before{Port: row.Master != ""}}
	if row.MTU != 0 {
		rec.Before.MTU = defaultMTU
	}
	if row.Type != Tun {
		rec.MAC = mac.String()
	}
	if row.MAC != "" {
		rec.Before.MAC = rec.MAC
	}
	return rec
}

// explainExists returns an error that says which name is taken: the link's or its peer's.
func (u *updates) explainExists(i int, err error) error {
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	row := u.rows[i]
	name := row.Name
	if _, lookErr := u.target.conn.LinkByName(u.ctx, name); lookErr != nil && row.Peer != "" {
		name = row.Peer
	}
	return fmt.Errorf("create %s %s: link %s already exists: %w", row.Type, row.Name, name, errors.Unwrap(err))
}

// lookAgain looks up the links that were created, and existing links that may become their
// ports.
func (u *updates) lookAgain(there, made []int) {
	if len(made) == 0 {
		return
	}
	l := u.target.looker(u.ctx)
	for _, i := range there {
		if u.results[i].Err == nil && u.rows[i].Master != "" && u.states[i].wanted == nil {
			u.states[i], u.results[i].Err = l.lookAt(u.rows[i])
		}
	}
	for _, i := range made {
		u.states[i], u.results[i].Err = l.lookAt(u.rows[i])
		if u.results[i].Err == nil && !u.states[i].created() { // it has been removed meanwhile
			u.results[i].Err = &rtnl.NoLinkError{Name: u.rows[i].Name}
		}
	}
}

// change sets the attributes of existing links.
func (u *updates) change(at []int) {
	for _, i := range at {
		if u.results[i].Err == nil {
			u.states[i], u.results[i].Err = u.target.note(u.states[i], u.rows[i])
		}
		if u.results[i].Err != nil {
			continue
		}
		for _, c := range u.states[i].attributes(u.rows[i]) {
			if c.err != nil {
				u.results[i].Err = errors.Join(u.results[i].Err, c.err)
			} else {
				u.request(i, c.request, c.does)
			}
		}
	}
	u.execute(asItIs)
	for _, i := range at {
		if u.results[i].Err == nil {
			u.results[i].Err = u.target.forget(u.states[i], u.rows[i])
		}
	}
}

// compare returns errors for the rows to whose links others are applied that have not made them as they declare.
func (u *updates) compare() {
	l := u.target.looker(u.ctx)
	for i, row := range u.rows {
		if !u.states[i].shared || u.results[i].Err != nil {
			continue
		}
		changes, err := l.diff(u.txn, row)
		if err == nil && len(changes) > 0 {
			err = fmt.Errorf("link %s waits for row %s, which declares the same link: %s is %q, not %q",
				row.Name, u.target.applied(u.txn, u.states[i].link, row).Name, changes[0].Field, changes[0].Is, changes[0].Want)
		}
		u.results[i].Err = err
	}
}

// DeleteBatch implements reconciler.BatchTarget. It deletes links that we created, and
// restores the attributes of links that existed before.
func (t *Target) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []Link) []error {
	u := &updates{target: t, ctx: ctx, rows: rows, states: make([]state, len(rows)), results: make([]reconciler.BatchResult, len(rows))}
	l := t.looker(ctx)
	for i, row := range rows {
		s, err := l.look(row.Name)
		u.states[i] = s
		passed := false
		if err == nil && s.isRecorded() {
			passed, err = t.passOn(ctx, txn, s)
		}
		switch {
		case err != nil:
			u.results[i].Err = err
		case passed:
		case s.created() && !s.rec.givesBack(row):
			u.request(i, s.deletion(), "delete link "+s.name)
		case s.renamed != nil:
			u.results[i].Err = t.endRenamed(ctx, txn, s.name)
		case s.isRecorded():
			if s.created() { // should this be cut off, the next process must not delete it
				s, u.results[i].Err = t.keep(s, givenBack(s.link, s.rec.Created.Before))
			}
			if u.results[i].Err != nil {
				continue
			}
			for _, c := range s.restoration() {
				u.request(i, c.request, c.does)
			}
		}
	}
	u.execute(func(_ int, err error) error { return unlessGone(err) })
	outcomes := make([]error, len(rows))
	for i := range rows {
		if outcomes[i] = u.results[i].Err; outcomes[i] == nil {
			outcomes[i] = t.records.Remove(rows[i].Name)
		}
	}
	return outcomes
}
