package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// lamp is a row of desired state, seenLamp one of observed state.
type lamp struct {
	Room   string
	Lit    bool
	Status reconciler.Status
}

func (l lamp) GetStatus() reconciler.Status        { return l.Status }
func (l lamp) WithStatus(s reconciler.Status) lamp { l.Status = s; return l }

type seenLamp struct {
	Room string
	Lit  bool
}

var (
	lampByRoom     = statedb.NewIndex("room", func(l lamp) string { return l.Room })
	seenLampByRoom = statedb.NewIndex("room", func(l seenLamp) string { return l.Room })
)

// switches is a target that prints its operations.
type switches struct {
	reconciler.NoInit

	done chan struct{}
}

func (s switches) Update(_ context.Context, _ statedb.ReadTxn, l lamp) (reconciler.Result, error) {
	fmt.Println("lamp of the", l.Room, "lit:", l.Lit)
	s.done <- struct{}{}
	return reconciler.Result{}, nil
}

func (switches) Delete(context.Context, statedb.ReadTxn, lamp) error { return nil }

func (switches) Prune(context.Context, statedb.ReadTxn, iter.Seq2[lamp, statedb.Revision]) (int, error) {
	return 0, nil
}

// ExampleObserves repairs what a sensor sees. What it has seen is always of some
// time ago, which is why nothing is concluded from it but that it is time to call
// Update with the newest row: if that was old news, Update has nothing to change.
func ExampleObserves() {
	db := statedb.New()
	lamps, _ := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[lamp]{Name: "lamps", Primary: lampByRoom}))
	seen, _ := statedb.NewTable(db, statedb.Schema[seenLamp]{Name: "seen-lamps", Primary: seenLampByRoom})
	target := switches{done: make(chan struct{}, 10)}
	r, err := reconciler.New(reconciler.Params[lamp]{
		DB: db, Table: lamps, Target: target,
		Observed: reconciler.Observes(statedb.ReadOnly(seen),
			func(_ statedb.ReadTxn, s seenLamp) iter.Seq[statedb.Query[lamp]] {
				return slices.Values([]statedb.Query[lamp]{lampByRoom.Query(s.Room)})
			},
			func(txn statedb.ReadTxn, want lamp) []reconciler.Change {
				s, _, found := seen.Get(txn, seenLampByRoom.Query(want.Room))
				if found && s.Lit == want.Lit {
					return nil
				}
				return []reconciler.Change{{Field: "lit", Is: fmt.Sprint(found && s.Lit), Want: fmt.Sprint(want.Lit)}}
			}),
		// The sensor shows a lamp at most this long after it was switched. What it
		// shows before is taken to be from before.
		Config: reconciler.Config{Drift: reconciler.Drift{Settle: 100 * time.Millisecond}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	write(db, lamps, lamp{Room: "kitchen", Lit: true})
	<-target.done
	write(db, seen, seenLamp{"kitchen", true}) // the sensor comes after
	write(db, seen, seenLamp{"kitchen", false})
	<-target.done // somebody has switched it off
	write(db, seen, seenLamp{"kitchen", true})
	cancel()
	fmt.Println("stopped:", <-ended)
	// Output:
	// lamp of the kitchen lit: true
	// lamp of the kitchen lit: true
	// stopped: <nil>
}

func write[Obj any](db *statedb.DB, table *statedb.RWTable[Obj], obj Obj) {
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, obj)
		return err
	}, table)
	if err != nil {
		fmt.Println(err)
	}
}
