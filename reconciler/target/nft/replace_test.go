package nft

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
)

// TestOneReadingPerTransaction: many notifications of one change are one reason to read.
func TestOneReadingPerTransaction(t *testing.T) {
	clean(t)
	w := withMirror(t)
	row := guarded()
	mustUpdate(t, w.Target, row, true)
	w.untilRight(t, row)
	asked := w.conn.Asked()
	var many []nftables.SetElement
	for i := range 2000 {
		many = append(many, nftables.SetElement{Key: []byte{198, 18, byte(i >> 8), byte(i)}})
	}
	conn := tables(t)
	set := world{t, conn, row.Key()}.set("hosts")
	for len(many) > 0 {
		if err := conn.SetAddElements(set, many[:500]); err != nil {
			t.Fatal(err)
		}
		many = many[500:]
	}
	flush(t, conn)
	w.untilDrifted(t, row)
	const reading = 8 // generation, table, chains, rules, sets, elements of two sets
	if n := w.conn.Asked() - asked; n > reading {
		t.Errorf("%d questions because of one transaction", n)
	}
}

func TestAForeignTableInThePlaceOfOurs(t *testing.T) {
	clean(t)
	w := withMirror(t)
	row := guarded()
	mustUpdate(t, w.Target, row, true)
	w.untilRight(t, row)
	conn := tables(t)
	conn.DelTable(libraryTable(row.Key()))
	conn.AddTable(libraryTable(row.Key()))
	conn.AddChain(libraryChain(row.Key(), "theirs"))
	flush(t, conn)
	if s := w.untilDrifted(t, row); s.ours() {
		t.Errorf("seen %+v", s)
	}
	if _, err := w.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
		t.Errorf("Update = %v", err)
	}
	mustDelete(t, w.Target, row)
	if !exists(t, row.Key()) {
		t.Error("the other one's table was removed")
	}

	row.Adopt = true
	changes, err := w.Diff(t.Context(), txn(), row)
	if err != nil || len(changes) < 2 || changes[0] != (reconciler.Change{Field: "owner", Is: "others", Want: "statehive"}) {
		t.Errorf("Diff = %+v, %v", changes, err)
	}
	mustUpdate(t, w.Target, row, true)
	w.untilRight(t, row)
	mustUpdate(t, w.Target, row, false)
	row.Adopt = false // it is ours by now
	mustUpdate(t, w.Target, row, false)
	mustDelete(t, w.Target, row)
	if exists(t, row.Key()) {
		t.Error("what was adopted is still there")
	}
}

// TestATableIsReplacedWithoutAGap looks at the table from beside while it changes, in
// the notifications of the kernel: old and new are told of in one transaction.
func TestATableIsReplacedWithoutAGap(t *testing.T) {
	clean(t)
	target := newTarget(t)
	row := guarded()
	mustUpdate(t, target, row, true)
	generation := func() uint32 {
		n, err := (&reader{conn: target.conn, ctx: t.Context()}).generation()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := generation()
	row.Chains[1].Rules = row.Chains[1].Rules[:1]
	mustUpdate(t, target, row, true)
	if n := generation() - before; n != 1 {
		t.Errorf("%d transactions to replace a table", n)
	}
}

func TestCountersSurviveARestart(t *testing.T) {
	clean(t)
	row := guarded()
	row.Chains[0].Rules[0].Counter = true
	mustUpdate(t, newTarget(t), row, true)
	before, _ := read(t, row.Key())
	// What a packet counts.
	for _, target := range []*Target{newTarget(t), withMirror(t).Target} {
		ping(t)
		mustUpdate(t, target, row, false)
	}
	if after, _ := read(t, row.Key()); after != before {
		t.Errorf("the table was %+v and is %+v", before, after)
	}
	if packets := packets(t, row.Key()); packets == 0 {
		t.Error("nothing was counted")
	}
}

func packets(t *testing.T, key Key) (n uint64) {
	t.Helper()
	for _, rule := range (world{t, tables(t), key}).rules("input") {
		for _, e := range rule.Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				n += counter.Packets
			}
		}
	}
	return n
}

func TestKernelErrorsNameTheirPlace(t *testing.T) {
	clean(t)
	target := newTarget(t)
	// A row that was not checked, as if the kernel knew less than we do.
	row := Table{Name: "t", Family: Inet, Chains: []Chain{{Name: "c", Hook: "input", Priority: PriorityOf(0), Rules: []Rule{
		{Accept: true}, {Jump: "nowhere"},
	}}}}
	requests, err := row.digested().creation()
	if err != nil {
		t.Fatal(err)
	}
	good := guarded()
	goodRequests, err := good.digested().creation()
	if err != nil {
		t.Fatal(err)
	}
	outcomes := target.transact(t.Context(), []task{{0, row.Key(), requests}, {1, good.Key(), goodRequests}})
	if outcomes[0] == nil || !strings.Contains(outcomes[0].Error(), "write table inet t: rules[1] of chain c: ") || !errors.Is(outcomes[0], unix.ENOENT) {
		t.Errorf("%v", outcomes[0])
	}
	if outcomes[1] != nil || !exists(t, good.Key()) {
		t.Errorf("the other table: %v", outcomes[1])
	}
	if exists(t, row.Key()) {
		t.Error("half a table was made")
	}
}
