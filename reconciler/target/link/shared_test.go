package link

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// declared is a target with the table of its rows.
type declared struct {
	*testing.T
	*Target
	db   *statedb.DB
	rows *statedb.RWTable[Link]
}

func newDeclared(t *testing.T, dir string) *declared {
	t.Helper()
	db := statedb.New()
	rows, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	target, err := New(Config{Owned: nstest.Store(t, dir), Rows: statedb.ReadOnly(rows)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return &declared{t, target, db, rows}
}

func (d *declared) write(write func(txn *statedb.WriteTxn) error) {
	d.Helper()
	if err := d.db.Update(d.Context(), write, d.rows); err != nil {
		d.Fatal(err)
	}
}

// update declares a row and applies it. It expects an error that contains a text, or none.
func (d *declared) update(row Link, want string) {
	d.Helper()
	d.write(func(txn *statedb.WriteTxn) error {
		_, _, err := d.rows.Insert(txn, row)
		return err
	})
	d.again(row, want)
}

func (d *declared) again(row Link, want string) {
	d.Helper()
	_, err := d.Update(d.Context(), d.db.ReadTxn(), row)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		d.Errorf("Update(%+v): %v, want %q", row, err, want)
	}
	changes, diffErr := d.Diff(d.Context(), d.db.ReadTxn(), row)
	if err == nil && (diffErr != nil || len(changes) > 0) {
		d.Errorf("after the update of %s: %v, %v", row.Name, changes, diffErr)
	}
}

func named(row Link, name string) Link {
	row.Name, row.Adopt = name, row.Type != ""
	return row
}

func TestALinkStaysWhileOneOfItsNamesIsDeclared(t *testing.T) {
	for name, row := range map[string]Link{
		"of ours":        {Name: "br9", Type: Bridge, Up: true, MTU: 1400},
		"of ours, down":  {Name: "br9", Type: Bridge, MTU: 1400},
		"of ours, other": {Name: "br9", Type: Veth, Peer: "br9p", Up: true, MTU: 1400},
		"of others":      {Name: "br9", Up: true, MTU: 1400},
	} {
		for _, last := range []string{"br9", "lan"} {
			t.Run(fmt.Sprintf("%s, %s last", name, last), func(t *testing.T) {
				remove(t, "br9")
				if row.Type == "" {
					bridge(t, "br9")
				}
				dir := t.TempDir()
				d := newDeclared(t, dir)
				d.update(row, "")
				nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
				index := mustLink(t, "br9").Attrs().Index
				d.update(named(row, "lan"), "")
				first := row
				if last == "br9" {
					first = named(row, "lan")
				}
				d.delete(first)
				is := mustLink(t, "br9").Attrs()
				if is.Index != index || is.MTU != 1400 {
					t.Errorf("after the first delete: index %d, %d before, MTU %d", is.Index, index, is.MTU)
				}
				d.again(named(row, last), "")
				wantObserved(t, d.Target, last)
				d.delete(named(row, last))
				wantNoRecords(t, dir)
				if row.Type != "" {
					wantAbsent(t, "br9")
				} else if mtu := mustLink(t, "br9").Attrs().MTU; mtu != 1500 {
					t.Errorf("in the end the MTU is %d", mtu)
				}
			})
		}
	}
}

func (d *declared) forget(row Link) {
	d.Helper()
	d.write(func(txn *statedb.WriteTxn) error {
		_, _, err := d.rows.Delete(txn, row)
		return err
	})
}

func (d *declared) delete(row Link) {
	d.Helper()
	d.forget(row)
	if err := d.Delete(d.Context(), d.db.ReadTxn(), row); err != nil {
		d.Errorf("Delete(%s): %v", row.Name, err)
	}
}

func TestADocumentIsEditedToAnotherNameOfItsLink(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		remove(t, "br9")
		row := Link{Name: "br9", Type: Bridge, Up: true}
		dir := t.TempDir()
		d := newDeclared(t, dir)
		d.update(row, "")
		nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
		index := mustLink(t, "br9").Attrs().Index
		d.forget(row)
		edited := named(row, "lan")
		edited.Adopt = adopt
		d.update(edited, "")
		d.delete(row)
		if is := mustLink(t, "br9").Attrs().Index; is != index {
			t.Errorf("the link was made anew: index %d, %d before", is, index)
		}
		d.delete(edited)
		wantAbsent(t, "br9")
		wantNoRecords(t, dir)
	}
}

func TestWhatALinkWasIsKnownUnderAnotherName(t *testing.T) {
	bridge(t, "br9")
	nstest.IP(t, "link", "set", "br9", "mtu", "1450", "alias", "theirs")
	nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
	dir := t.TempDir()
	d := newDeclared(t, dir)
	row := Link{Name: "br9", Type: Bridge, Up: true, MTU: 1400, Adopt: true}
	d.update(row, "")
	d.forget(row)
	d.update(named(row, "lan"), "")
	d.delete(row)
	d.update(Link{Name: "lan", Type: Bridge, Up: true}, "")
	d.update(Link{Name: "lan", Up: true}, "")
	if is := mustLink(t, "br9").Attrs(); is.MTU != 1450 || is.Alias != "theirs" {
		t.Errorf("MTU %d, alias %q", is.MTU, is.Alias)
	}
	d.delete(Link{Name: "lan", Up: true})
	mustLink(t, "br9")
	wantNoRecords(t, dir)
}

// A row names the other end of its veth by an alternative name.
func TestAPeerMayBeAnAlternativeName(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		remove(t, "v0")
		target := open(t, t.TempDir())
		row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
		mustUpdate(t, target, row, true)
		index, end := mustLink(t, "v0").Attrs().Index, mustLink(t, "v1").Attrs().Index
		same := func(when string) {
			t.Helper()
			if a, b := mustLink(t, "v0").Attrs().Index, mustLink(t, "v1").Attrs().Index; a != index || b != end {
				t.Errorf("%s, it was made anew", when)
			}
		}
		nstest.IP(t, "link", "property", "add", "dev", "v1", "altname", "uplink")
		row.Peer = "uplink"
		wantDiff(t, target, row)
		mustUpdate(t, target, row, false)
		same("after an edit of the peer to another of its names")

		nstest.IP(t, "link", "set", "v1", "name", "v9")
		nstest.IP(t, "link", "property", "add", "dev", "v9", "altname", "v1")
		row.Peer = "v1"
		mustUpdate(t, target, row, false)
		same("after a rename, with the old name as an alternative one")

		nstest.IP(t, "link", "property", "add", "dev", "v0", "altname", "wan")
		row.Peer = "wan"
		if _, err := target.Update(t.Context(), txn(), row); err == nil || !strings.Contains(err.Error(), "another name of itself") {
			t.Errorf("with a name of its own: %v", err)
		}
		same("after that")
		mustDelete(t, target, "v0")
	})
}

func TestOneOfTwoRowsThatContradictEachOtherIsApplied(t *testing.T) {
	bridge(t, "br8")
	nstest.Veth(t, "v0", "v1")
	nstest.IP(t, "link", "property", "add", "dev", "v0", "altname", "port")
	dir := t.TempDir()
	d := newDeclared(t, dir)
	const refused = "is also declared as v0, with different fields"
	d.update(Link{Name: "v0", Up: true}, "")
	other := Link{Name: "port", Up: true, MTU: 1300, Master: "br8"}
	d.update(other, refused)
	is := mustLink(t, "v0").Attrs()
	if is.MasterIndex != 0 || is.MTU != 1500 {
		t.Errorf("master %d, MTU %d", is.MasterIndex, is.MTU)
	}
	other.MTU, other.Master = 0, ""
	d.update(other, "")
	other.MTU = 1300
	d.update(other, refused)
	d.update(Link{Name: "v0", Up: true, MTU: 1300}, "")
	d.again(other, "")
	d.update(Link{Name: "v0", Up: true}, "")
	d.again(other, refused)

	// The one that is applied goes: now the other one is.
	d.delete(Link{Name: "v0", Up: true})
	d.again(other, "")
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1300 {
		t.Errorf("MTU %d", mtu)
	}
	d.update(Link{Name: "v0", Up: true}, "is also declared as port")
	d.delete(other)
	d.again(Link{Name: "v0", Up: true}, "")
	d.delete(Link{Name: "v0", Up: true})
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1500 {
		t.Errorf("in the end the MTU is %d", mtu)
	}
	wantNoRecords(t, dir)

	t.Run("also if one has a type", func(t *testing.T) {
		remove(t, "br9")
		d := newDeclared(t, t.TempDir())
		d.update(Link{Name: "br9", Type: Bridge, Up: true}, "")
		nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
		d.update(Link{Name: "lan", Up: true}, "is also declared as br9")
		d.update(Link{Name: "lan", Type: Veth, Peer: "lanp", Up: true, Adopt: true}, "is also declared as br9")
		d.delete(Link{Name: "lan", Type: Veth, Peer: "lanp"})
		mustLink(t, "br9")
	})
}

// The error says to remove one of the documents.
func TestALinkOfOthersIsLeftToTheRowThatAdoptsIt(t *testing.T) {
	bridge(t, "br9")
	nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
	dir := t.TempDir()
	d := newDeclared(t, dir)
	plain, adopts := Link{Name: "lan", Up: true}, Link{Name: "br9", Type: Bridge, Up: true, Adopt: true}
	d.update(plain, "")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "br9")
	nstest.IP(t, "route", "add", "198.51.100.0/24", "via", "192.0.2.2")
	d.update(adopts, "is also declared as lan")
	d.delete(plain)
	d.again(adopts, "")
	if routes := nstest.IP(t, "route"); !strings.Contains(routes, "198.51.100.0/24") {
		t.Errorf("the routes are %q", routes)
	}

	// And back: as soon as it is left to a row without a type, it belongs to others again.
	d.update(plain, "is also declared as br9")
	d.delete(adopts)
	d.delete(plain)
	if is := mustLink(t, "br9").Attrs(); is.Alias != "" {
		t.Errorf("its alias is %q", is.Alias)
	}
	wantNoRecords(t, dir)
}

// Its record is lost. Health goes on naming it.
func TestTheMarkOfALinkThatWasNotAdoptedStays(t *testing.T) {
	bridge(t, "br9")
	nstest.IP(t, "link", "set", "br9", "alias", alias)
	d := newDeclared(t, t.TempDir())
	d.update(Link{Name: "br9", Up: true}, "")
	d.delete(Link{Name: "br9", Up: true})
	if is := mustLink(t, "br9").Attrs().Alias; is != alias {
		t.Errorf("its alias is %q", is)
	}
}

// The row that is left is for a link of another type.
func TestALinkIsNotLeftToARowOfAnotherType(t *testing.T) {
	for name, other := range map[string]Link{
		"a veth":                   {Name: "lan", Type: Veth, Peer: "lanp", Up: true},
		"a veth that adopts":       {Name: "lan", Type: Veth, Peer: "lanp", Up: true, Adopt: true},
		"a veth with another peer": {Name: "lan", Type: Veth, Peer: "lanp", Up: true, MTU: 1400},
		"one without a type":       {Name: "lan", Up: true},
	} {
		t.Run(name, func(t *testing.T) {
			remove(t, "br9")
			row := Link{Name: "br9", Type: Bridge, Up: true}
			if other.MTU != 0 {
				row.Type, row.Peer = Veth, "br9p"
			}
			d := newDeclared(t, t.TempDir())
			d.update(row, "")
			nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
			index := mustLink(t, "br9").Attrs().Index
			d.update(other, "is also declared as br9")
			d.forget(row)
			if other.Type != "" {
				d.again(other, "left alone")
			} else {
				d.again(other, "")
			}
			if is := mustLink(t, "br9").Attrs().Index; is != index {
				t.Errorf("the link was made anew: index %d, %d before", is, index)
			}
			d.delete(row)
			if other.Type != "" {
				wantAbsent(t, "br9")
				return
			}
			mustLink(t, "br9")
			d.delete(other)
			wantAbsent(t, "br9")
		})
	}
}

// The other end of a veth is in another network namespace, or its peer is an alternative name.
func TestAVethIsLeftToItsOtherRowWhateverThePeerIs(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, row *Link){
		"elsewhere": func(t *testing.T, _ *Link) {
			t.Helper()
			nstest.IP(t, "link", "set", "br9p", "netns", strconv.Itoa(otherNamespace(t)))
		},
		"an alternative name": func(t *testing.T, row *Link) {
			t.Helper()
			nstest.IP(t, "link", "property", "add", "dev", "br9p", "altname", "end")
			row.Peer = "end"
		},
	} {
		for _, edited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, edited %t", name, edited), func(t *testing.T) {
				remove(t, "br9")
				d := newDeclared(t, t.TempDir())
				row := Link{Name: "br9", Type: Veth, Peer: "br9p", Up: true}
				d.update(row, "")
				prepare(t, &row)
				d.update(row, "")
				nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "lan")
				index := mustLink(t, "br9").Attrs().Index
				if edited {
					d.forget(row)
				}
				other := row
				other.Name = "lan"
				d.update(other, "")
				d.delete(row)
				d.again(other, "")
				if is := mustLink(t, "br9").Attrs().Index; is != index {
					t.Errorf("the link was made anew: index %d, %d before", is, index)
				}
				d.delete(other)
				wantAbsent(t, "br9")
			})
		}
	}
}

// A link of others is renamed, and has rows by both names for a while.
func TestTheRecordOfARenamedLinkStaysWithItsNewRow(t *testing.T) {
	bridge(t, "br9")
	remove(t, "new9")
	dir := t.TempDir()
	d := newDeclared(t, dir)
	d.update(Link{Name: "br9", Up: true}, "")
	nstest.IP(t, "link", "set", "br9", "name", "new9")
	d.update(Link{Name: "new9", Up: true, MTU: 1400}, "")
	d.delete(Link{Name: "br9", Up: true})
	d.again(Link{Name: "new9", Up: true, MTU: 1400}, "")
	d.delete(Link{Name: "new9", Up: true})
	if mtu := mustLink(t, "new9").Attrs().MTU; mtu != 1500 {
		t.Errorf("in the end the MTU is %d", mtu)
	}
	wantNoRecords(t, dir)
}

// Others have made another link with the name of a row, or given it to one.
func TestALinkIsLeftToARowWithAnOldRecord(t *testing.T) {
	bridge(t, "br8")
	bridge(t, "br9")
	nstest.IP(t, "link", "set", "br9", "down")
	dir := t.TempDir()
	d := newDeclared(t, dir)
	nine, eight := Link{Name: "br9", Up: true}, Link{Name: "br8", Up: true}
	d.update(nine, "")
	d.update(eight, "")
	nstest.IP(t, "link", "del", "br8")
	nstest.IP(t, "link", "property", "add", "dev", "br9", "altname", "br8")
	d.again(eight, "")
	d.delete(nine)
	if is := mustLink(t, "br9").Attrs().Flags; is&net.FlagUp == 0 {
		t.Error("the link was set down")
	}
	d.delete(eight)
	if is := mustLink(t, "br9").Attrs().Flags; is&net.FlagUp != 0 {
		t.Error("in the end the link is up")
	}
	wantNoRecords(t, dir)
}

func TestRowsOfOneLinkAreComparedWithIt(t *testing.T) {
	d := newDeclared(t, t.TempDir())
	seen, err := statedb.NewTable(d.db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	is := Seen{Name: "br9", OtherNames: "lan", Index: 9, Type: Bridge, Up: true, MTU: 1400, Alias: alias}
	same := Link{Name: "lan", Type: Bridge, Up: true}
	d.write(func(txn *statedb.WriteTxn) error {
		_, _, err := d.rows.Insert(txn, Link{Name: "br9", Type: Bridge, Up: true})
		return err
	})
	if err := errors.Join(
		d.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := seen.Insert(txn, is)
			return err
		}, seen),
		d.records.Put("br9", record{Created: &created{Type: Bridge, Index: 9}}),
	); err != nil {
		t.Fatal(err)
	}
	if due := d.differences(d.db.ReadTxn(), statedb.ReadOnly(seen), same); len(due) > 0 {
		t.Errorf("of a row that declares the same: %v", due)
	}
	same.MTU = 1400
	if due := d.differences(d.db.ReadTxn(), statedb.ReadOnly(seen), same); len(due) != 1 || due[0].Is != "br9" {
		t.Errorf("of a row that declares something else: %v", due)
	}
}
