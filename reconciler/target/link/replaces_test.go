package link

import (
	"testing"

	"github.com/statehive/statehive/statedb"
)

func TestWhatTakesAddressesAndRoutesAway(t *testing.T) {
	db := statedb.New()
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, is := range []Seen{
			{Name: "v0", Index: 1, Type: Veth, Up: true, MTU: 1500, Peer: 2},
			{Name: "v1", OtherNames: "uplink", Index: 2, Type: Veth, Up: true, MTU: 1500, Peer: 1},
			{Name: "far", Index: 3, Type: Veth, Up: true, MTU: 1500},
			{Name: "down", Index: 4, Type: Bridge, MTU: 1000},
		} {
			if _, _, err := seen.Insert(txn, is); err != nil {
				return err
			}
		}
		return nil
	}, seen)
	if err != nil {
		t.Fatal(err)
	}
	replaces := Replaces(statedb.ReadOnly(seen))
	for name, test := range map[string]struct{ row, was Link }{
		"nothing":            {row: Link{Name: "v0", Type: Veth, Peer: "v1", Up: true, MTU: 9000, MAC: "02:00:00:00:00:01", Master: "br0"}},
		"another type":       {Link{Name: "v0", Type: Bridge, Up: true}, Link{Name: "v0", Peer: "v1"}},
		"another peer":       {Link{Name: "v0", Type: Veth, Peer: "v9", Up: true}, Link{Name: "v0", Peer: "v1"}},
		"a name of its peer": {row: Link{Name: "v0", Type: Veth, Peer: "uplink", Up: true}},
		"a peer elsewhere":   {row: Link{Name: "far", Type: Veth, Peer: "v9", Up: true}},
		"down":               {Link{Name: "v1"}, Link{Name: "v1"}},
		"no room for IPv6":   {Link{Name: "v1", Up: true, MTU: 1279}, Link{Name: "v1"}},
		"room for IPv6":      {row: Link{Name: "v1", Up: true, MTU: 1280}},
		"down already":       {row: Link{Name: "down", Type: Bridge}},
		"too small already":  {row: Link{Name: "down", Type: Bridge, Up: true, MTU: 900}},
		"not there":          {row: Link{Name: "new", Type: Bridge}},
	} {
		was, replaced := replaces(db.ReadTxn(), test.row)
		if replaced != (test.was.Name != "") || replaced && was != test.was {
			t.Errorf("%s: %v, %v, want %v", name, was, replaced, test.was)
		}
	}
}
