package nft

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// large returns a table with a set of n addresses, half of them in ranges, and rules.
func large(n, rules int) Table {
	row := Table{Name: "large", Family: Inet, Sets: []Set{{Name: "hosts", Type: IPv4Addr}, {Name: "networks", Type: IPv4Addr}}}
	for i := range n / 2 {
		row.Sets[0].Elements = append(row.Sets[0].Elements, Element(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff)))
		row.Sets[1].Elements = append(row.Sets[1].Elements, Element(fmt.Sprintf("%d.%d.%d.0/25", 20+i>>16, i>>8&0xff, i&0xff)))
	}
	input := Chain{Name: "input", Hook: "input", Priority: PriorityOf(0), Rules: []Rule{
		{Match: Match{Saddr: addresses("@hosts")}, Drop: true}, {Match: Match{Saddr: addresses("@networks")}, Drop: true},
	}}
	for i := range rules {
		input.Rules = append(input.Rules, Rule{
			Match: Match{Iif: "eth0", Proto: 6, Saddr: addresses(fmt.Sprintf("192.0.%d.0/24", i&0xff)), Dport: ports(fmt.Sprint(1 + i))}, Counter: true, Accept: true,
		})
	}
	row.Chains = []Chain{input}
	return row
}

// small returns n tables with a chain, some rules and a set each.
func small(n int) []Table {
	rows := make([]Table, n)
	for i := range rows {
		rows[i] = Table{
			Name: fmt.Sprintf("small%d", i), Family: Inet,
			Sets: []Set{{Name: "services", Type: InetService, Elements: []Element{"22", Element(fmt.Sprint(1000 + i))}}},
			Chains: []Chain{{Name: "more", Rules: []Rule{
				{Match: Match{Proto: 6, Dport: ports("@services")}, Counter: true, Accept: true},
				{Match: Match{CtState: []string{"established"}}, Accept: true},
			}}},
		}
	}
	return rows
}

// batches calls do with rows as a reconciler does: 256 at a time.
func batches(rows []Table, do func([]Table)) {
	const size = 256
	for first := 0; first < len(rows); first += size {
		do(rows[first:min(first+size, len(rows))])
	}
}

func updateAll(t testing.TB, target *Target, rows []Table, changed bool) {
	t.Helper()
	batches(rows, func(rows []Table) {
		for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
			if result.Err != nil || result.Result.Changed != changed {
				t.Fatalf("outcome of %s: %+v, expected changed %v", rows[i].Key(), result, changed)
			}
		}
	})
}

func TestALargeTable(t *testing.T) {
	clean(t)
	w := withMirror(t)
	for _, size := range []struct{ elements, rules int }{{10_000, 1_000}, {100_000, 10}} {
		row := large(size.elements, size.rules).digested()
		mustUpdate(t, w.Target, row, true)
		w.untilRight(t, row)
		mustUpdate(t, w.Target, row, false)

		// Another process starts over.
		second := withMirror(t)
		second.untilRight(t, row)
		mustUpdate(t, second.Target, row, false)
		sets, err := tables(t).GetSetElements(&nftables.Set{Table: libraryTable(row.Key()), Name: "hosts"})
		if err != nil || len(sets) != size.elements/2 {
			t.Errorf("the kernel has %d elements, %v", len(sets), err)
		}

		// One element of many is missed.
		conn := tables(t)
		set := world{t, conn, row.Key()}.set("hosts")
		if err := conn.SetDeleteElements(set, []nftables.SetElement{{Key: []byte{10, 0, 0, 7}}}); err != nil {
			t.Fatal(err)
		}
		flush(t, conn)
		w.untilDrifted(t, row)
		changes, err := w.Diff(t.Context(), txn(), row)
		want := fmt.Sprintf("%d, missing: 1", size.elements/2)
		if err != nil || len(changes) != 1 || changes[0].Want != want {
			t.Errorf("Diff = %+v, %v, expected %s", changes, err, want)
		}
		mustUpdate(t, w.Target, row, true)
		w.untilRight(t, row)
		mustDelete(t, w.Target, row)
	}
}

// TestManySmallTables counts what a target asks the kernel: nothing lists, and what is
// right is not touched.
func TestManySmallTables(t *testing.T) {
	clean(t)
	w := withMirror(t)
	const count = 1000
	rows := small(count)
	w.mirror.Load().View(t.Context()) // waits for the first listing
	asked := w.conn.Asked()
	updateAll(t, w.Target, rows, true)
	if n := w.conn.Asked(); n != asked {
		t.Errorf("%d questions to make %d tables", n-asked, count)
	}
	w.untilRight(t, rows[count-1])

	second := withMirror(t)
	second.untilRight(t, rows[count-1])
	requested := second.conn.Requested()
	updateAll(t, second.Target, rows, false)
	if n := second.conn.Requested(); n != requested {
		t.Errorf("%d requests to start over what is right", n-requested)
	}
	observed := 0
	for _, err := range second.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		observed++
	}
	if observed != count {
		t.Errorf("%d tables are observed", observed)
	}
	asked = second.conn.Asked()
	batches(rows, func(rows []Table) {
		for _, err := range second.DeleteBatch(t.Context(), txn(), rows) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := second.conn.Asked(); n != asked {
		t.Errorf("%d questions to remove %d tables", n-asked, count)
	}
	w.until(t, "gone", func(_ Seen, found bool) bool { return !found }, rows[count-1].Key())
	if exists(t, rows[0].Key()) {
		t.Error("the first table is still there")
	}
}

// TestABatchTellsItsRowsApart: a row that cannot be fails alone.
func TestABatchTellsItsRowsApart(t *testing.T) {
	clean(t)
	target := newTarget(t)
	rows := small(50)
	conn := tables(t)
	conn.AddTable(libraryTable(rows[7].Key()))
	flush(t, conn)
	rows[9].Family = "arp"
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		switch {
		case i == 7 && errors.Is(result.Err, ErrForeign), i == 9 && result.Err != nil:
		case i == 7 || i == 9 || result.Err != nil || !result.Result.Changed:
			t.Errorf("outcome %d: %+v", i, result)
		}
	}
}

// TestWhatIsNotThereAnyMore: the mirror's knowledge is older than the kernel's.
func TestWhatIsNotThereAnyMore(t *testing.T) {
	clean(t)
	target := newTarget(t)
	row := guarded()
	old := Seen{Key: row.Key(), Handle: 1 << 40, Mark: "old", Content: "old"}
	creation, err := row.digested().creation()
	if err != nil {
		t.Fatal(err)
	}
	outcomes := target.transact(t.Context(), []task{{0, row.Key(), append([]rtnl.Request{old.deletion()}, creation...)}})
	if !stale(outcomes[0]) {
		t.Errorf("a table that is gone: %v", outcomes[0])
	}
	mustUpdate(t, target, row, true)
	if outcomes = target.transact(t.Context(), []task{{0, row.Key(), creation}}); !stale(outcomes[0]) {
		t.Errorf("a table that is there: %v", outcomes[0])
	}
}

// script returns what nft(8) makes of the same rows.
func script(rows []Table) string {
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "table %s {\n", row.Key())
		for _, set := range row.Sets {
			fmt.Fprintf(&b, "set %s { type %s;", set.Name, set.Type)
			if _, ranges, _ := set.spans(); ranges {
				b.WriteString(" flags interval;")
			}
			b.WriteString(" elements = {")
			for i, element := range set.Elements {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(string(element))
			}
			b.WriteString("}; }\n")
		}
		for i := range row.Chains { // those without a hook first: others jump there
			chain := row.Chains[len(row.Chains)-1-i]
			fmt.Fprintf(&b, "chain %s {\n", chain.Name)
			if chain.Hook != "" {
				fmt.Fprintf(&b, "type filter hook %s priority %d;\n", chain.Hook, chain.Priority.value)
			}
			for _, rule := range chain.Rules {
				text := strings.ReplaceAll(rule.String(), "saddr", "ip saddr")
				text = strings.ReplaceAll(text, "proto tcp dport", "tcp dport")
				b.WriteString(text + "\n")
			}
			b.WriteString("}\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// BenchmarkTables compares with nft(8), if that is installed: the time from rows, or from
// a file, to tables in the kernel.
func BenchmarkTables(b *testing.B) {
	for name, rows := range map[string][]Table{
		"10,000 elements and 1,000 rules": {large(10_000, 1_000)},
		"100,000 elements":                {large(100_000, 10)},
		"1,000 small tables":              small(1000),
	} {
		b.Run(name+"/target", func(b *testing.B) {
			target := newTarget(b)
			for b.Loop() {
				updateAll(b, target, rows, true)
				b.StopTimer()
				empty(b)
				b.StartTimer()
			}
		})
		nft, err := exec.LookPath("nft")
		if err != nil {
			continue // there is nothing to compare with
		}
		b.Run(name+"/nft -f", func(b *testing.B) {
			text := script(rows)
			for b.Loop() {
				command := exec.CommandContext(b.Context(), nft, "-f", "-")
				command.Stdin = strings.NewReader(text)
				if out, err := command.CombinedOutput(); err != nil {
					// In a user namespace it cannot send much: run the benchmark as root in a
					// network namespace with the variable of package nstest set.
					b.Fatalf("%v\n%.2000s", err, out)
				}
				b.StopTimer()
				empty(b)
				b.StartTimer()
			}
		})
	}
}

func empty(b *testing.B) {
	b.Helper()
	conn := tables(b)
	conn.FlushRuleset()
	flush(b, conn)
}
