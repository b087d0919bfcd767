package statedb_test

import (
	"context"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// A program depends on several tables and works once for many changes.
func ExampleWatchSet() {
	db := statedb.New()
	services := newServices(db)
	zones, err := statedb.NewTable(db, statedb.Schema[string]{
		Name:    "zones",
		Primary: statedb.NewIndex("name", func(zone string) string { return zone }),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	var watches statedb.WatchSet
	look := func() {
		txn := db.ReadTxn()
		allServices, servicesChanged := services.AllWatch(txn)
		allZones, zonesChanged := zones.AllWatch(txn)
		watches.Clear()
		watches.Add(servicesChanged, zonesChanged)
		fmt.Println(statedb.Count(allServices), "services in", statedb.Count(allZones), "zones")
	}
	look()

	put(db, services, Service{Name: "web", Zone: "west"}, Service{Name: "db", Zone: "west"})
	err = db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := zones.Insert(txn, "west")
		return err
	}, zones)
	if err != nil {
		fmt.Println(err)
	}

	// It returns when nothing else has changed for a tenth of a second.
	closed, err := watches.Wait(context.Background(), 100*time.Millisecond)
	fmt.Println(len(closed), "tables have changed", err)
	look()
	// Output:
	// 0 services in 0 zones
	// 2 tables have changed <nil>
	// 2 services in 1 zones
}

// What Wait returns says what has changed.
func ExampleWatchSet_Wait() {
	db := statedb.New()
	services := newServices(db)
	var watches statedb.WatchSet
	names := map[<-chan struct{}]string{}
	for _, name := range []string{"cache", "db", "web"} {
		_, _, changed, _ := services.GetWatch(db.ReadTxn(), ServiceByName.Query(name))
		names[changed] = name
		watches.Add(changed)
	}

	put(db, services, Service{Name: "web", Port: 443})

	closed, err := watches.Wait(context.Background(), 0)
	for _, watch := range closed {
		fmt.Println(names[watch], "has changed")
	}
	fmt.Println(err)
	// Output:
	// web has changed
	// <nil>
}
