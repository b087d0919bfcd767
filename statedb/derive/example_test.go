package derive_test

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

// Service runs in a zone.
type Service struct {
	Name string
	Zone string
}

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
	ServiceByName     = statedb.NewIndex("name", func(s Service) string { return s.Name })
	ServiceByZone     = statedb.NewIndex("zone", func(s Service) string { return s.Zone })
	ZoneByName        = statedb.NewIndex("name", func(z Zone) string { return z.Name })
	LocationByService = statedb.NewIndex("service", func(l Location) string { return l.Service })
)

// Where a service runs follows from two tables: a change of a service affects
// its own row, a change of a zone those of all services in it.
func ExampleNew() {
	db := statedb.New()
	services, err := statedb.NewTable(db, statedb.Schema[Service]{
		Name: "services", Primary: ServiceByName, Secondary: []statedb.Indexer[Service]{ServiceByZone},
	})
	if err != nil {
		panic(err)
	}
	zones, err := statedb.NewTable(db, statedb.Schema[Zone]{Name: "zones", Primary: ZoneByName})
	if err != nil {
		panic(err)
	}
	locations, err := statedb.NewTable(db, statedb.Schema[Location]{Name: "locations", Primary: LocationByService})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, _, err := services.Insert(txn, Service{Name: "web", Zone: "a"})
		if err == nil {
			_, _, err = services.Insert(txn, Service{Name: "db", Zone: "b"})
		}
		return err
	}, services)
	if err != nil {
		panic(err)
	}

	derivation, err := derive.New(ctx, derive.Spec[Location, string]{
		Output:  locations,
		Primary: LocationByService,
		Inputs: []derive.Input[string]{
			derive.From(statedb.ReadOnly(services), func(_ statedb.ReadTxn, s Service, affects func(string)) { affects(s.Name) }),
			derive.From(statedb.ReadOnly(zones), func(txn statedb.ReadTxn, z Zone, affects func(string)) {
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
	go func() { ended <- derivation.Run(ctx) }()

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
