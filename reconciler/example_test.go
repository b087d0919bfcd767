package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// shelf is what is wanted on a shelf.
type shelf struct {
	Name, Content string
	Status        reconciler.Status
}

func (s shelf) GetStatus() reconciler.Status              { return s.Status }
func (s shelf) WithStatus(status reconciler.Status) shelf { s.Status = status; return s }

// store is the target: what is on the shelves. All operations may be repeated.
type store map[string]string

func (store) Init(context.Context) error { return nil }

func (st store) Update(_ context.Context, _ statedb.ReadTxn, s shelf) (reconciler.Result, error) {
	if s.Content == "water" {
		return reconciler.Result{}, reconciler.Terminal(fmt.Errorf("shelf %s: water is not kept on shelves", s.Name))
	}
	changed := st[s.Name] != s.Content
	st[s.Name] = s.Content
	return reconciler.Result{Changed: changed}, nil
}

func (st store) Delete(_ context.Context, _ statedb.ReadTxn, s shelf) error {
	delete(st, s.Name)
	return nil
}

// Prune is not called: the target can observe.
func (store) Prune(context.Context, statedb.ReadTxn, iter.Seq2[shelf, statedb.Revision]) (int, error) {
	return 0, nil
}

func (st store) Observe(context.Context) iter.Seq2[shelf, error] {
	return func(yield func(shelf, error) bool) {
		for name, content := range maps.Clone(st) {
			if !yield(shelf{Name: name, Content: content}, nil) {
				return
			}
		}
	}
}

// A table of rows with a status, a target, and a reconciler between them.
func Example() {
	db, byName := statedb.New(), statedb.NewIndex("name", func(s shelf) string { return s.Name })
	shelves, err := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[shelf]{Name: "shelves", Primary: byName}))
	if err != nil {
		fmt.Println(err)
		return
	}
	target := store{"left": "dust"} // from an earlier time
	r, err := reconciler.New(reconciler.Params[shelf]{DB: db, Table: shelves, Target: target})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()

	write(db, shelves, shelf{Name: "right", Content: "books"})
	fmt.Println("all is done:", r.WaitTable(ctx))
	write(db, shelves, shelf{Name: "top", Content: "water"})
	fmt.Println("top:", r.WaitRow(ctx, shelf{Name: "top"}))
	right, _, _ := shelves.Get(db.ReadTxn(), byName.Query("right"))
	fmt.Println("right:", right.Status)

	cancel()
	fmt.Println("stopped:", <-ended, target)
	// Output:
	// all is done: <nil>
	// top: reconciler shelves: update top: shelf top: water is not kept on shelves
	// right: done
	// stopped: <nil> map[right:books]
}
