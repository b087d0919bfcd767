package statedb_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/statehive/statehive/statedb"
)

type hop struct {
	Destination netip.Prefix
	Via         string
}

var byDestination = statedb.NewPrefixIndex("destination", func(h hop) netip.Prefix { return h.Destination })

func hops() (*statedb.DB, *statedb.RWTable[hop]) {
	db := statedb.New()
	table, err := statedb.NewTable(db, statedb.Schema[hop]{Name: "hops", Primary: byDestination})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for destination, via := range map[string]string{"0.0.0.0/0": "uplink", "10.0.0.0/8": "site", "10.1.0.0/16": "rack"} {
			if _, _, err := table.Insert(txn, hop{netip.MustParsePrefix(destination), via}); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		log.Fatal(err)
	}
	return db, table
}

func ExamplePrefixIndex() {
	db, table := hops()
	txn := db.ReadTxn()
	for _, addr := range []string{"10.1.2.3", "10.2.0.1", "192.0.2.1"} {
		h, _, _ := byDestination.Lookup(txn, statedb.ReadOnly(table), netip.MustParseAddr(addr))
		fmt.Println(addr, "by", h.Destination, "via", h.Via)
	}
	for h := range byDestination.Containing(txn, statedb.ReadOnly(table), netip.MustParsePrefix("10.1.2.0/24")) {
		fmt.Println("contains 10.1.2.0/24:", h.Destination)
	}
	for h := range byDestination.Within(txn, statedb.ReadOnly(table), netip.MustParsePrefix("10.0.0.0/8")) {
		fmt.Println("inside 10.0.0.0/8:", h.Destination)
	}
	// Output:
	// 10.1.2.3 by 10.1.0.0/16 via rack
	// 10.2.0.1 by 10.0.0.0/8 via site
	// 192.0.2.1 by 0.0.0.0/0 via uplink
	// contains 10.1.2.0/24: 0.0.0.0/0
	// contains 10.1.2.0/24: 10.0.0.0/8
	// contains 10.1.2.0/24: 10.1.0.0/16
	// inside 10.0.0.0/8: 10.0.0.0/8
	// inside 10.0.0.0/8: 10.1.0.0/16
}

func ExamplePrefixIndex_LookupWatch() {
	db, table := hops()
	addr := netip.MustParseAddr("10.1.2.3")
	h, _, changed, _ := byDestination.LookupWatch(db.ReadTxn(), statedb.ReadOnly(table), addr)
	fmt.Println("via", h.Via)
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, hop{netip.MustParsePrefix("10.1.2.0/24"), "host"})
		return err
	}, table)
	if err != nil {
		log.Fatal(err)
	}
	<-changed
	h, _, _ = byDestination.Lookup(db.ReadTxn(), statedb.ReadOnly(table), addr)
	fmt.Println("via", h.Via)
	// Output:
	// via rack
	// via host
}
