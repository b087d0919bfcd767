package statedb_test

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/statedb"
)

// Zone says where the services of a zone run.
type Zone struct {
	Name   string
	Region string
}

// Location is derived: a service and the region of its zone.
type Location struct {
	Service string
	Region  string
}

var (
	ZoneByName        = statedb.NewIndex("name", func(z Zone) string { return z.Name })
	LocationByService = statedb.NewIndex("service", func(l Location) string { return l.Service })
)

// Where a service runs follows from two tables: a change of a service affects
// its own row, a change of a zone those of all services in it.
func ExampleNewDeriver() {
	db := statedb.New()
	services := newServices(db)
	zones, err := statedb.NewTable(db, statedb.Schema[Zone]{Name: "zones", Primary: ZoneByName})
	if err != nil {
		panic(err)
	}
	locations, err := statedb.NewTable(db, statedb.Schema[Location]{Name: "locations", Primary: LocationByService})
	if err != nil {
		panic(err)
	}
	put(db, services, Service{Name: "web", Zone: "a"}, Service{Name: "db", Zone: "b"})

	ctx, cancel := context.WithCancel(context.Background())
	deriver, err := statedb.NewDeriver(ctx, statedb.Derivation[Location, string]{
		Output: locations,
		Inputs: []statedb.DeriveInput[string]{
			statedb.DeriveFrom(services, func(_ statedb.ReadTxn, s Service, affects func(string)) { affects(s.Name) }),
			statedb.DeriveFrom(zones, func(txn statedb.ReadTxn, z Zone, affects func(string)) {
				for s := range services.List(txn, ServiceByZone.Query(z.Name)) {
					affects(s.Name)
				}
			}),
		},
		Compute: func(txn statedb.ReadTxn, name string) (Location, bool, error) {
			s, _, exists := services.Get(txn, ServiceByName.Query(name))
			if !exists {
				return Location{}, false, nil
			}
			z, _, exists := zones.Get(txn, ZoneByName.Query(s.Zone))
			return Location{Service: name, Region: z.Region}, exists, nil
		},
	})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- deriver.Run(ctx) }()

	_, initialized := locations.Initialized(db.ReadTxn())
	<-initialized
	list := func() <-chan struct{} {
		rows, watch := locations.AllWatch(db.ReadTxn())
		for l := range rows {
			fmt.Println(l.Service, "runs in", l.Region)
		}
		return watch
	}
	changed := list() // no zone is known yet
	err = db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, _, err := zones.Insert(txn, Zone{Name: "a", Region: "north"})
		return err
	}, zones)
	if err != nil {
		panic(err)
	}
	<-changed
	list()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web runs in north
	// context canceled
}
