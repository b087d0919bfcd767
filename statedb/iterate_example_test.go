package statedb_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/statehive/statehive/statedb"
)

func exampleServices() (*statedb.DB, *statedb.RWTable[Service]) {
	db := statedb.New()
	services := newServices(db)
	put(db, services,
		Service{Name: "cache", Zone: "east", Port: 6379},
		Service{Name: "db", Zone: "east", Port: 5432},
		Service{Name: "web", Zone: "west", Port: 80})
	return db, services
}

func ExampleCollect() {
	db, services := exampleServices()

	east := statedb.Collect(services.List(db.ReadTxn(), ServiceByZone.Query("east")))
	fmt.Println(len(east), east[0].Name, east[1].Name)
	// Output: 2 cache db
}

func ExampleObjects() {
	db, services := exampleServices()

	all := statedb.Objects(services.All(db.ReadTxn()))
	byPort := slices.SortedFunc(all, func(a, b Service) int { return cmp.Compare(a.Port, b.Port) })
	for _, service := range byPort {
		fmt.Println(service.Port, service.Name)
	}
	// Output:
	// 80 web
	// 5432 db
	// 6379 cache
}

func ExampleFilter() {
	db, services := exampleServices()

	privileged := func(s Service) bool { return s.Port < 1024 }
	for service, revision := range statedb.Filter(services.All(db.ReadTxn()), privileged) {
		fmt.Println(service.Name, "is privileged since revision", revision)
	}
	// Output: web is privileged since revision 3
}

func ExampleMap() {
	db, services := exampleServices()
	txn := db.ReadTxn()
	name := func(s Service) string { return s.Name }

	fmt.Println(statedb.Collect(statedb.Map(services.All(txn), name)))

	// A sequence of pairs is what package maps wants: here, the revision of each name.
	revisions := maps.Collect(statedb.Map(services.All(txn), name))
	fmt.Println(revisions["db"])
	// Output:
	// [cache db web]
	// 2
}
