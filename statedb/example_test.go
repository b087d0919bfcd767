package statedb_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/statehive/statehive/statedb"
)

// Service is the row of the examples: a plain, comparable value.
type Service struct {
	Name  string
	Zone  string
	Port  uint16
	State string // status: written by Amend alone
}

// The type of a key decides its order; nobody encodes keys.
var (
	ServiceByName = statedb.NewIndex("name", func(s Service) string { return s.Name })
	ServiceByZone = statedb.NewIndex("zone", func(s Service) string { return s.Zone })
)

func newServices(db *statedb.DB) *statedb.RWTable[Service] {
	services, err := statedb.NewTable(db, statedb.Schema[Service]{
		Name:      "services",
		Primary:   ServiceByName,
		Secondary: []statedb.Indexer[Service]{ServiceByZone},
		Amend: statedb.Amend[Service]{
			Carry: func(from, to Service) Service { to.State = from.State; return to },
			Reset: func(s Service) Service { s.State = ""; return s },
		},
	})
	if err != nil {
		panic(err)
	}
	return services
}

// put is what a program would do where the rows come from.
func put(db *statedb.DB, services *statedb.RWTable[Service], rows ...Service) {
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := services.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, services)
	if err != nil {
		panic(err)
	}
}

func ExampleNewTable() {
	db := statedb.New()
	services, err := statedb.NewTable(db, statedb.Schema[Service]{
		Name:      "services",
		Primary:   ServiceByName,
		Secondary: []statedb.Indexer[Service]{ServiceByZone},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	put(db, services,
		Service{Name: "web", Zone: "west", Port: 80},
		Service{Name: "db", Zone: "east", Port: 5432},
		Service{Name: "cache", Zone: "east", Port: 6379})

	txn := db.ReadTxn() // a snapshot: nothing changes in it any more
	for service := range services.List(txn, ServiceByZone.Query("east")) {
		fmt.Println(service.Name, service.Port)
	}
	// Output:
	// cache 6379
	// db 5432
}

func ExampleTable_queries() {
	db := statedb.New()
	byPort := statedb.NewIndex("port", func(s Service) uint16 { return s.Port })
	services, err := statedb.NewTable(db, statedb.Schema[Service]{
		Name: "services", Primary: ServiceByName, Secondary: []statedb.Indexer[Service]{byPort},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	put(db, services, Service{Name: "web", Port: 80}, Service{Name: "web-tls", Port: 443},
		Service{Name: "db", Port: 5432}, Service{Name: "cache", Port: 6379})

	txn := db.ReadTxn()
	for service := range services.Prefix(txn, ServiceByName.Query("web")) {
		fmt.Println("prefix web:", service.Name)
	}
	for service := range services.Range(txn, byPort.Query(0), byPort.Query(1024), statedb.WithReverse()) {
		fmt.Println("below 1024, from the top:", service.Port)
	}
	for service := range services.All(txn, statedb.WithLimit(1)) {
		fmt.Println("the first:", service.Name)
	}
	fmt.Println("from 443 on:", statedb.Count(services.LowerBound(txn, byPort.Query(443))))
	// Output:
	// prefix web: web
	// prefix web: web-tls
	// below 1024, from the top: 443
	// below 1024, from the top: 80
	// the first: cache
	// from 443 on: 3
}

func ExampleDB_Update() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "web", Port: 80})

	// Both writes happen, or none.
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		if _, _, err := services.Insert(txn, Service{Name: "api", Port: 8080}); err != nil {
			return err
		}
		_, err := services.Modify(txn, ServiceByName.Query("mail"), func(s Service) Service {
			s.Port = 25
			return s
		})
		return err
	}, services)
	fmt.Println(errors.Is(err, statedb.ErrNotFound), services.Len(db.ReadTxn()))
	// Output: true 1
}

func ExampleSchema_validators() {
	db := statedb.New()
	services, err := statedb.NewTable(db, statedb.Schema[Service]{
		Name:    "services",
		Primary: ServiceByName,
		Defaulters: []func(statedb.ReadTxn, Service) (Service, error){
			func(_ statedb.ReadTxn, s Service) (Service, error) {
				if s.Zone == "" {
					s.Zone = "west"
				}
				return s, nil
			},
		},
		Validators: []func(statedb.ReadTxn, statedb.Proposal[Service]) error{
			func(_ statedb.ReadTxn, p statedb.Proposal[Service]) error {
				if p.Replaces && p.Object.Zone != p.Old.Zone {
					return fmt.Errorf("a service cannot move from %s to %s", p.Old.Zone, p.Object.Zone)
				}
				return nil
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	put(db, services, Service{Name: "web"})

	err = db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := services.Insert(txn, Service{Name: "web", Zone: "east"})
		return err
	}, services)
	fmt.Println(errors.Is(err, statedb.ErrRejected))
	fmt.Println(err)
	// Output:
	// true
	// table services, row "web": row was rejected: a service cannot move from west to east
}

func ExampleTable_watch() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "web", Port: 80})

	web, _, changed, _ := services.GetWatch(db.ReadTxn(), ServiceByName.Query("web"))
	fmt.Println("port", web.Port)

	go put(db, services, Service{Name: "web", Port: 443})

	<-changed // the new snapshot can be read by now
	web, _, _ = services.Get(db.ReadTxn(), ServiceByName.Query("web"))
	fmt.Println("port", web.Port)
	// Output:
	// port 80
	// port 443
}

func ExampleTable_changes() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "web"}, Service{Name: "db"})

	cursor := services.Changes(0) // begins with a listing
	defer cursor.Close()
	show := func() {
		for change := range cursor.Next(db.ReadTxn()) {
			switch change.Kind {
			case statedb.Upsert:
				fmt.Println("is", change.Object.Name, change.Object.Port)
			case statedb.Delete:
				fmt.Println("gone", change.Object.Name)
			case statedb.Reset:
				fmt.Println("forget everything: a listing follows")
			}
		}
	}
	show()
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := services.Delete(txn, Service{Name: "db"})
		return err
	}, services)
	if err != nil {
		fmt.Println(err)
	}
	put(db, services, Service{Name: "web", Port: 80})

	<-cursor.Watch() // there is more
	show()
	// Output:
	// is db 0
	// is web 0
	// gone db
	// is web 80
}

func ExampleRWTable_compareAndSwap() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "web", Port: 80})

	web, revision, _ := services.Get(db.ReadTxn(), ServiceByName.Query("web"))
	put(db, services, Service{Name: "web", Port: 443}) // somebody else is quicker

	web.Port = 8080
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, err := services.CompareAndSwap(txn, revision, web)
		return err
	}, services)
	fmt.Println(errors.Is(err, statedb.ErrConflict))
	fmt.Println(err)
	// Output:
	// true
	// table services, row "web": row was changed since
}

func ExampleRWTable_amend() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "web", Port: 80})
	web, revision, _ := services.Get(db.ReadTxn(), ServiceByName.Query("web"))

	// The status is written only if the spec is still the one that was seen.
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, err := services.Amend(txn, web, revision, func(s Service) Service {
			s.State = "running"
			return s
		})
		return err
	}, services)
	if err != nil {
		fmt.Println(err)
	}
	show := func() {
		web, _, _ := services.Get(db.ReadTxn(), ServiceByName.Query("web"))
		fmt.Printf("port %d, state %q\n", web.Port, web.State)
	}
	put(db, services, Service{Name: "web", Port: 80}) // the same spec disturbs nothing
	show()
	put(db, services, Service{Name: "web", Port: 443}) // another one has no status yet
	show()
	// Output:
	// port 80, state "running"
	// port 443, state ""
}
