package statedb_test

import (
	"context"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// A balancer wants to know all services, and hears of changes at most once a
// second.
func ExampleFollow() {
	db := statedb.New()
	services := newServices(db)
	put(db, services, Service{Name: "db", Port: 5432}, Service{Name: "web", Port: 80})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	known := map[string]Service{}
	options := statedb.FollowOptions{MinInterval: time.Second}
	err := statedb.Follow(ctx, statedb.ReadOnly(services), options, func(ctx context.Context, batch statedb.Batch[Service]) error {
		for _, change := range batch.Changes {
			switch change.Kind {
			case statedb.Upsert:
				known[change.Object.Name] = change.Object
			case statedb.Delete:
				delete(known, change.Object.Name)
			case statedb.Reset: // what is there now follows
				clear(known)
			}
		}
		if !batch.Complete || !batch.Initialized {
			return nil // there is more to come
		}
		fmt.Println(len(known), "services")
		if len(known) == 2 {
			put(db, services, Service{Name: "cache", Port: 6379})
			return nil
		}
		cancel()
		return nil
	})
	fmt.Println(err)
	// Output:
	// 2 services
	// 3 services
	// context canceled
}
