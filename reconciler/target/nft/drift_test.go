package nft

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// until waits until what a mirror has seen is as it should be.
func (w watched) until(t *testing.T, what string, holds func(s Seen, found bool) bool, key Key) Seen {
	t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		txn := w.db.ReadTxn()
		_, changed := w.seen.AllWatch(txn)
		initialized, delivered := w.seen.Initialized(txn)
		s, _, found := w.seen.Get(txn, SeenByKey.Query(key))
		if initialized && holds(s, found) {
			return s
		}
		if initialized {
			delivered = nil
		}
		select {
		case <-changed:
		case <-delivered:
		case <-deadline:
			t.Fatalf("table %s is not %s: found %v %+v", key, what, found, s)
		}
	}
}

func (w watched) untilRight(t *testing.T, row Table) Seen {
	t.Helper()
	row = row.digested()
	return w.until(t, "right", func(s Seen, found bool) bool { return len(s.steps(row, found)) == 0 }, row.Key())
}

func (w watched) untilDrifted(t *testing.T, row Table) Seen {
	t.Helper()
	row = row.digested()
	return w.until(t, "wrong", func(s Seen, found bool) bool { return len(s.steps(row, found)) > 0 }, row.Key())
}

// guarded is a row in which much can be changed.
func guarded() Table {
	return Table{
		Name: "filter", Family: Inet,
		Sets: []Set{
			{Name: "hosts", Type: IPv4Addr, Elements: []Element{"192.0.2.1", "192.0.2.2"}},
			{Name: "networks", Type: IPv4Addr, Elements: []Element{"10.0.0.0/8"}},
		},
		Chains: []Chain{
			{Name: "input", Hook: "input", Priority: PriorityOf(0), Policy: "accept", Rules: []Rule{
				{Match: Match{Iif: "lo"}, Counter: true, Accept: true},
				{Match: Match{Saddr: addresses("@hosts")}, Drop: true},
				{Match: Match{Saddr: addresses("@networks")}, Drop: true},
				{Jump: "services"},
			}},
			{Name: "services", Rules: []Rule{
				{Match: Match{Proto: 6, Dport: ports("22")}, Accept: true},
				{Match: Match{Proto: 6, Dport: ports("443")}, Accept: true},
			}},
		},
	}
}

// world is what others may change of guarded.
type world struct {
	*testing.T
	*nftables.Conn
	key Key
}

func (w world) table() *nftables.Table { return libraryTable(w.key) }

func (w world) rules(chain string) []*nftables.Rule {
	w.Helper()
	rules, err := w.GetRules(w.table(), libraryChain(w.key, chain))
	if err != nil {
		w.Fatal(err)
	}
	return rules
}

func (w world) set(name string) *nftables.Set {
	w.Helper()
	set, err := w.GetSetByName(w.table(), name)
	if err != nil {
		w.Fatal(err)
	}
	return set
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) transact(requests ...rtnl.Request) {
	w.Helper()
	conn, err := rtnl.DialNetfilter()
	w.must(err)
	defer conn.Close()
	w.must(conn.Transact(w.Context(), requests))
}

// replace makes the table of guarded again, as a saved ruleset does that somebody has edited: with a change to its first set.
func (w world) replace(change func(set *rtnl.Request)) {
	w.Helper()
	is, found := read(w.T, w.key)
	requests, err := guarded().digested().creation()
	w.must(err)
	if !found || requests[1].Type&0xff != unix.NFT_MSG_NEWSET {
		w.Fatalf("table %v, the first request for its content has the type %d", is, requests[1].Type)
	}
	change(&requests[1])
	w.transact(append([]rtnl.Request{is.deletion()}, requests...)...)
}

// limitOncePerDay adds the attributes of an expression.
func limitOncePerDay(r *rtnl.Request) {
	r.AddString(unix.NFTA_EXPR_NAME, "limit")
	r.Nest(unix.NFTA_EXPR_DATA, func() {
		r.Add(unix.NFTA_LIMIT_RATE, binary.BigEndian.AppendUint64(nil, 1))
		r.Add(unix.NFTA_LIMIT_UNIT, binary.BigEndian.AppendUint64(nil, 24*60*60))
		addNumber(r, unix.NFTA_LIMIT_BURST, 1)
	})
}

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }

func key4(last byte) []byte { return []byte{192, 0, 2, last} }

// disturbances are the ways in which others change a table, and the field that then
// differs.
func disturbances() map[string]struct {
	change func(w world)
	field  string
} {
	type disturbance = struct {
		change func(w world)
		field  string
	}
	return map[string]disturbance{
		"a rule is removed": {func(w world) { w.must(w.DelRule(w.rules("services")[0])) }, "chains[services].rules[0]"},
		"a rule is added": {func(w world) {
			w.AddRule(&nftables.Rule{Table: w.table(), Chain: libraryChain(w.key, "services"), Exprs: verdict(expr.VerdictDrop)})
		}, "chains[services].rules[2]"},
		"a rule is inserted": {func(w world) {
			w.InsertRule(&nftables.Rule{Table: w.table(), Chain: libraryChain(w.key, "services"), Exprs: verdict(expr.VerdictDrop)})
		}, "chains[services].rules[0]"},
		"a rule is replaced": {func(w world) {
			w.ReplaceRule(&nftables.Rule{
				Table: w.table(), Chain: libraryChain(w.key, "services"),
				Handle: w.rules("services")[1].Handle, Exprs: verdict(expr.VerdictDrop),
			})
		}, "chains[services].rules[1]"},
		"rules change places": {func(w world) {
			first := w.rules("services")[0]
			w.must(w.DelRule(first))
			w.AddRule(&nftables.Rule{Table: w.table(), Chain: libraryChain(w.key, "services"), Exprs: first.Exprs})
		}, "chains[services].rules[0]"},
		"a chain is flushed": {func(w world) { w.FlushChain(libraryChain(w.key, "services")) }, "chains[services].rules[0]"},
		"a policy is changed": {func(w world) {
			policy := nftables.ChainPolicyDrop
			w.AddChain(&nftables.Chain{Name: "input", Table: w.table(), Policy: &policy})
		}, "chains[input]"},
		"a chain is added": {func(w world) { w.AddChain(libraryChain(w.key, "theirs")) }, "chains[theirs]"},
		"a chain is removed": {func(w world) {
			w.must(w.DelRule(w.rules("input")[3]))
			w.FlushChain(libraryChain(w.key, "services"))
			w.DelChain(libraryChain(w.key, "services"))
		}, "chains[input].rules[3]"},
		"an element is added": {func(w world) {
			w.must(w.SetAddElements(w.set("hosts"), []nftables.SetElement{{Key: key4(9)}}))
		}, "sets[hosts].elements"},
		"an element is removed": {func(w world) {
			w.must(w.SetDeleteElements(w.set("hosts"), []nftables.SetElement{{Key: key4(1)}}))
		}, "sets[hosts].elements"},
		"a range is added": {func(w world) {
			w.must(w.SetAddElements(w.set("networks"), []nftables.SetElement{{Key: key4(0)}, {Key: key4(8), IntervalEnd: true}}))
		}, "sets[networks].elements"},
		"a set is flushed": {func(w world) { w.FlushSet(w.set("hosts")) }, "sets[hosts].elements"},
		"a set is added": {func(w world) {
			w.must(w.AddSet(&nftables.Set{Table: w.table(), Name: "theirs", KeyType: nftables.TypeInetService}, nil))
		}, "sets[theirs]"},
		"an object is added": {func(w world) {
			w.AddObj(&nftables.CounterObj{Table: w.table(), Name: "theirs"})
		}, "other objects"},
		"the table sleeps": {func(w world) {
			r := rtnl.TablesRequest(unix.NFT_MSG_NEWTABLE, 0, w.key.Family.number())
			r.AddString(unix.NFTA_TABLE_NAME, w.key.Name)
			const dormant = 1
			r.Add(unix.NFTA_TABLE_FLAGS, binary.BigEndian.AppendUint32(nil, dormant))
			w.transact(r)
		}, "flags"},
		"elements of a set match at times": {func(w world) {
			w.replace(func(r *rtnl.Request) {
				r.Nest(setExpression, func() { limitOncePerDay(r) })
			})
		}, "sets[hosts]"},
		"an element matches at times": {func(w world) {
			w.must(w.SetDeleteElements(w.set("hosts"), []nftables.SetElement{{Key: key4(1)}}))
			flush(w.T, w.Conn)
			w.transact(func() (r rtnl.Request) {
				r = guarded().request(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
				r.AddString(unix.NFTA_SET_ELEM_LIST_TABLE, w.key.Name)
				r.AddString(unix.NFTA_SET_ELEM_LIST_SET, "hosts")
				r.Nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
					r.Nest(unix.NFTA_LIST_ELEM, func() {
						r.Nest(unix.NFTA_SET_ELEM_KEY, func() { r.Add(unix.NFTA_DATA_VALUE, key4(1)) })
						r.Nest(unix.NFTA_SET_ELEM_EXPR, func() { limitOncePerDay(&r) })
					})
				})
				return r
			}())
		}, "sets[hosts].elements"},
		"a set can hold fewer elements": {func(w world) {
			w.replace(func(r *rtnl.Request) {
				r.Nest(unix.NFTA_SET_DESC, func() { addNumber(r, unix.NFTA_SET_DESC_SIZE, 2) })
			})
		}, "sets[hosts]"},
		"the table is removed":      {func(w world) { w.DelTable(w.table()) }, "name"},
		"all tables are removed":    {func(w world) { w.FlushRuleset() }, "name"},
		"all its rules are flushed": {func(w world) { w.FlushTable(w.table()) }, "chains[input].rules[0]"},
	}
}

func TestEachDriftIsSeenAndRepaired(t *testing.T) {
	clean(t)
	w := withMirror(t)
	row := guarded()
	for name, disturbance := range disturbances() {
		t.Run(name, func(t *testing.T) {
			mustUpdate(t, w.Target, row, true)
			defer mustDelete(t, w.Target, row)
			before := w.untilRight(t, row)
			asked := w.conn.Asked()
			mustUpdate(t, w.Target, row, false)
			if n := w.conn.Asked(); n != asked {
				t.Errorf("%d questions about a table that is right", n-asked)
			}

			conn := tables(t)
			disturbance.change(world{t, conn, row.Key()})
			flush(t, conn)
			w.untilDrifted(t, row)
			changes, err := w.Diff(t.Context(), txn(), row)
			if err != nil || len(changes) == 0 || changes[0].Field != disturbance.field {
				t.Errorf("Diff = %+v, %v, expected %s first", changes, err, disturbance.field)
			}
			for _, change := range changes {
				if change.Is == change.Want {
					t.Errorf("no change: %+v", change)
				}
			}

			mustUpdate(t, w.Target, row, true)
			after := w.untilRight(t, row)
			if after.Handle == before.Handle {
				t.Error("the table is the same")
			}
			if s, found := read(t, row.Key()); s.Content != row.digested().digest || !found {
				t.Errorf("the kernel has %+v, %v", s, found)
			}
			mustUpdate(t, w.Target, row, false)
		})
	}
}

// TestWhatIsNoDrift changes what does not matter.
func TestWhatIsNoDrift(t *testing.T) {
	clean(t)
	w := withMirror(t)
	row := guarded()
	mustUpdate(t, w.Target, row, true)
	before := w.untilRight(t, row)

	// Tables of others are not even looked at.
	asked := w.conn.Asked()
	theirs := Key{Inet, "theirs"}
	conn := tables(t)
	conn.AddTable(libraryTable(theirs))
	conn.AddChain(libraryChain(theirs, "input"))
	flush(t, conn)
	w.until(t, "there", func(_ Seen, found bool) bool { return found }, theirs)
	for range 20 {
		conn.AddRule(&nftables.Rule{Table: libraryTable(theirs), Chain: libraryChain(theirs, "input"), Exprs: verdict(expr.VerdictAccept)})
		flush(t, conn)
	}
	conn.DelTable(libraryTable(theirs))
	flush(t, conn)
	w.until(t, "gone", func(_ Seen, found bool) bool { return !found }, theirs)
	if n := w.conn.Asked(); n != asked {
		t.Errorf("%d questions because of others' tables", n-asked)
	}

	// What was undone leaves nothing to repair.
	for range 5 {
		conn.AddChain(libraryChain(row.Key(), "passing"))
		flush(t, conn)
		conn.DelChain(libraryChain(row.Key(), "passing"))
		flush(t, conn)
	}
	mustUpdate(t, w.Target, row, false)
	if after := w.untilRight(t, row); after.Handle != before.Handle {
		t.Error("the table was made again")
	}
	if w.conn.Asked() == asked {
		t.Error("a change of our table was not looked at")
	}
}

// A saved ruleset has the mark, also after it was edited and loaded when its row had gone.
func TestAnOrphanThatOthersHaveEditedIsLeft(t *testing.T) {
	clean(t)
	row := guarded()
	for name, target := range map[string]*Target{"with a mirror": withMirror(t).Target, "without": newTarget(t)} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			target.log = slog.New(slog.NewTextHandler(&log, nil))
			for edited := range 2 {
				mustUpdate(t, target, row, true)
				if edited == 1 {
					world{t, tables(t), row.Key()}.replace(func(set *rtnl.Request) {
						set.Nest(setExpression, func() { limitOncePerDay(set) })
					})
				}
				mustDelete(t, target, onlyOrphan(t, target))
				if _, found := read(t, row.Key()); found != (edited == 1) || log.Len() > 0 != found {
					t.Errorf("%d edited: found %t, log %q", edited, found, &log)
				}
			}
			mustUpdate(t, target, row, true) // a row of its key replaces it, and takes it away
			mustDelete(t, target, row)
			if _, found := read(t, row.Key()); found {
				t.Error("it is not removed with its row")
			}
		})
	}
}

// onlyOrphan returns what Observe yields.
func onlyOrphan(t *testing.T, target *Target) (orphan Table) {
	t.Helper()
	n := 0
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		orphan = row
		n++
	}
	if n != 1 {
		t.Fatalf("Observe yields %d rows", n)
	}
	return orphan
}
