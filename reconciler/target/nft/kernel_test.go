package nft

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func newTarget(t testing.TB) *Target {
	t.Helper()
	target, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

// watched is a target whose mirror runs, and what that has seen.
type watched struct {
	*Target
	db   *statedb.DB
	seen *statedb.Table[Seen]
}

func withMirror(t *testing.T) watched {
	t.Helper()
	target := newTarget(t)
	db, table := nstest.Mirror(t, SeenSchema(), target.NewMirror)
	return watched{target, db, statedb.ReadOnly(table)}
}

// tables is the library's way to nftables, which knows nothing of ours.
func tables(t testing.TB) *nftables.Conn {
	t.Helper()
	conn, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func flush(t testing.TB, conn *nftables.Conn) {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// clean removes all tables after a test.
func clean(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		conn := tables(t)
		conn.FlushRuleset()
		flush(t, conn)
	})
}

// libraryTable is the table of a row for the library.
func libraryTable(key Key) *nftables.Table {
	return &nftables.Table{Name: key.Name, Family: nftables.TableFamily(key.Family.number())}
}

func libraryChain(key Key, name string) *nftables.Chain {
	return &nftables.Chain{Name: name, Table: libraryTable(key)}
}

// exists reports whether there is a table.
func exists(t testing.TB, key Key) bool {
	t.Helper()
	all, err := tables(t).ListTablesOfFamily(nftables.TableFamily(key.Family.number()))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == key.Name {
			return true
		}
	}
	return false
}

func mustUpdate(t testing.TB, target *Target, row Table, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", row.Key(), result, err, changed)
	}
}

func mustDelete(t testing.TB, target *Target, row Table) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), row); err != nil {
		t.Fatal(err)
	}
}

// read reads a table of ours from the kernel.
func read(t testing.TB, key Key) (Seen, bool) {
	t.Helper()
	s, found, err := (&reader{conn: newTarget(t).conn, ctx: t.Context()}).seen(key)
	if err != nil {
		t.Fatal(err)
	}
	return s, found
}

func TestTheKernelTellsWhatWasAskedFor(t *testing.T) {
	clean(t)
	target := newTarget(t)
	for name, row := range samples() {
		t.Run(name, func(t *testing.T) {
			mustUpdate(t, target, row, true)
			s, found := read(t, row.Key())
			if !found || s.Content != row.digested().digest || s.Mark != s.Content {
				t.Errorf("%s: found %v %+v, expected digest %s", row.Key(), found, s, row.digested().digest)
				due, err := (&looker{reader: reader{conn: target.conn, ctx: t.Context()}}).details(row, nil)
				t.Log(due, err)
			}
			mustUpdate(t, target, row, false)
			mustDelete(t, target, row)
			if exists(t, row.Key()) {
				t.Error("it is still there")
			}
		})
	}
}

// text reads a value from text.
func text[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](text string,
) (value T) {
	if err := P(&value).UnmarshalText([]byte(text)); err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return value
}

func addresses(s string) Addresses       { return text[Addresses](s) }
func ports(s string) Ports               { return text[Ports](s) }
func translationTo(s string) Translation { return text[Translation](s) }

// samples are rows with everything that rows can have.
func samples() map[string]Table {
	input := Chain{Name: "input", Hook: "input", Priority: PriorityOf(0), Policy: "drop"}
	with := func(c Chain, rules ...Rule) Chain {
		c.Rules = rules
		return c
	}
	samples := map[string]Table{
		"empty":                 {Name: "t", Family: Inet},
		"an empty chain":        {Name: "t", Family: Inet, Chains: []Chain{{Name: "c"}}},
		"a base chain":          {Name: "t", Family: Inet, Chains: []Chain{input}},
		"a chain of IPv4":       {Name: "t", Family: IP, Chains: []Chain{with(input, Rule{Reject: true})}},
		"a chain of IPv6":       {Name: "t", Family: IP6, Chains: []Chain{with(input, Rule{Reject: true})}},
		"a chain of type route": {Name: "t", Family: Inet, Chains: []Chain{{Name: "o", Hook: "output", Priority: PriorityOf(-150), Type: "route"}}},
		"empty sets":            {Name: "t", Family: Inet, Sets: []Set{{Name: "a", Type: IPv4Addr}, {Name: "b", Type: IPv6Addr}, {Name: "c", Type: InetService}}},
		"sets of single elements": {Name: "t", Family: Inet, Sets: []Set{
			{Name: "a", Type: IPv4Addr, Elements: []Element{"192.0.2.1", "192.0.2.2", "192.0.2.1", "0.0.0.0"}},
			{Name: "b", Type: IPv6Addr, Elements: []Element{"2001:db8::1", "::"}},
			{Name: "c", Type: InetService, Elements: []Element{"22", "0", "65535"}},
		}},
		"sets of ranges": {Name: "t", Family: Inet, Sets: []Set{
			{Name: "a", Type: IPv4Addr, Elements: []Element{"10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/8", "192.0.2.1", "255.255.255.0/24", "0.0.0.0"}},
			{Name: "b", Type: IPv6Addr, Elements: []Element{"2001:db8::/32", "2001:dba::1-2001:dba::9", "ffff::/16"}},
			{Name: "c", Type: InetService, Elements: []Element{"22", "1000-2000", "2001-3000", "60000-65535"}},
			{Name: "d", Type: IPv4Addr, Elements: []Element{"0.0.0.0/0"}},
		}},
		"every match": {
			Name: "t", Family: Inet,
			Sets: []Set{
				{Name: "hosts", Type: IPv4Addr, Elements: []Element{"192.0.2.0/24"}},
				{Name: "hosts6", Type: IPv6Addr, Elements: []Element{"2001:db8::1"}},
				{Name: "services", Type: InetService, Elements: []Element{"80", "443"}},
			},
			Chains: []Chain{with(
				input,
				Rule{Match: Match{Iif: "lo"}, Accept: true},
				Rule{Match: Match{Iif: "veth*", Oif: "eth0"}, Counter: true, Drop: true},
				Rule{Match: Match{Saddr: addresses("192.0.2.1"), Daddr: addresses("10.0.0.0/8")}, Accept: true},
				Rule{Match: Match{Saddr: addresses("10.16.0.0/12"), Daddr: addresses("0.0.0.0/0")}, Accept: true},
				Rule{Match: Match{Saddr: addresses("2001:db8::/33"), Daddr: addresses("2001:db8::1")}, Accept: true},
				Rule{Match: Match{Saddr: addresses("@hosts")}, Drop: true},
				Rule{Match: Match{Daddr: addresses("@hosts6")}, Drop: true},
				Rule{Match: Match{Proto: 6, Sport: ports("1000-2000"), Dport: ports("22")}, Accept: true},
				Rule{Match: Match{Proto: 17, Dport: ports("@services")}, Accept: true},
				Rule{Match: Match{Proto: 1}, Accept: true},
				Rule{Match: Match{Proto: 58}, Accept: true},
				Rule{Match: Match{CtState: []string{"established", "related"}}, Accept: true},
				Rule{Match: Match{CtState: []string{"invalid", "new", "untracked"}}, Drop: true},
				Rule{Match: Match{Mark: MarkOf(0x10, allBits)}, Accept: true},
				Rule{Match: Match{Mark: MarkOf(0, allBits)}, Accept: true},
				Rule{Match: Match{Mark: MarkOf(0x10, 0xff)}, Accept: true},
				Rule{Jump: "more"},
				Rule{Reject: true},
			), with(Chain{Name: "more"}, Rule{Counter: true, Accept: true})},
		},
		"translations": {
			Name: "t", Family: Inet,
			Chains: []Chain{
				{Name: "pre", Hook: "prerouting", Priority: PriorityOf(-100), Rules: []Rule{
					{Match: Match{Proto: 6, Dport: ports("80")}, Dnat: translationTo("192.0.2.1:8080")},
					{Match: Match{Proto: 6, Dport: ports("80")}, Dnat: translationTo("[2001:db8::1]:8080")},
					{Dnat: translationTo("192.0.2.2")},
					{Jump: "more"},
				}},
				{Name: "post", Hook: "postrouting", Priority: PriorityOf(100), Rules: []Rule{
					{Match: Match{Oif: "eth0"}, Masquerade: true},
					{Match: Match{Saddr: addresses("2001:db8::/64")}, Snat: translationTo("2001:db8::9")},
					{Match: Match{Proto: 17}, Snat: translationTo("192.0.2.9:99")},
				}},
				{Name: "more", Rules: []Rule{{Dnat: translationTo("192.0.2.3")}}},
			},
		},
		"translations of IPv4": {
			Name: "t", Family: IP,
			Chains: []Chain{{Name: "post", Hook: "postrouting", Priority: PriorityOf(100), Rules: []Rule{
				{Masquerade: true}, {Snat: translationTo("192.0.2.1")},
			}}},
		},
	}
	return samples
}

func TestWhatOthersMadeIsLeftAlone(t *testing.T) {
	clean(t)
	row := samples()["every match"]
	conn := tables(t)
	conn.AddTable(libraryTable(row.Key()))
	conn.AddChain(libraryChain(row.Key(), "theirs"))
	flush(t, conn)
	for name, target := range map[string]*Target{"without a mirror": newTarget(t), "with one": withMirror(t).Target} {
		t.Run(name, func(t *testing.T) {
			_, err := target.Update(t.Context(), txn(), row)
			var foreign *ForeignError
			if !errors.Is(err, ErrForeign) || !errors.As(err, &foreign) || foreign.Key != row.Key() {
				t.Errorf("Update = %v", err)
			}
			const says = "table inet t: a table of this name exists and was not made by this agent; it is left alone: delete it, choose another name, or set adopt to replace it"
			if fmt.Sprint(err) != says {
				t.Errorf("%v\nexpected\n%s", err, says)
			}
			if _, err := target.Diff(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
				t.Errorf("Diff: %v", err)
			}
			mustDelete(t, target, row)
			for row, err := range target.Observe(t.Context()) {
				t.Errorf("observed %v, %v", row.Key(), err)
			}
			if _, err := tables(t).ListChain(libraryTable(row.Key()), "theirs"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever saves a table and loads it again under another name copies its comment.
func TestACopyUnderAnotherNameIsNotOurs(t *testing.T) {
	clean(t)
	row := samples()["every match"].digested()
	mirror := withMirror(t)
	mustUpdate(t, mirror.Target, row, true)
	mark := markOf(row.Key(), row.digest)
	var requests []rtnl.Request
	for _, copied := range []Table{{Name: "copy", Family: row.Family}, {Name: row.Name, Family: IP6}} {
		r := copied.request(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
		r.AddString(unix.NFTA_TABLE_NAME, copied.Name)
		r.Add(tableUserData, userdata.AppendString(nil, tableComment, mark))
		requests = append(requests, r)
	}
	if err := mirror.conn.Transact(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]*Target{"without a mirror": newTarget(t), "with one": mirror.Target} {
		var got []Key
		for row, err := range target.Observe(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			got = append(got, row.Key())
		}
		if !slices.Equal(got, []Key{row.Key()}) {
			t.Errorf("%s: observed %v", name, got)
		}
		_, err := target.Update(t.Context(), txn(), Table{Name: "copy", Family: row.Family})
		if !errors.Is(err, ErrForeign) {
			t.Errorf("%s: Update: %v", name, err)
		}
	}
}

// ping sends a packet over the loopback device.
func ping(t *testing.T) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
}
