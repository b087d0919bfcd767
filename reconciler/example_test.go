package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// shelf is the desired state of a shelf.
type shelf struct {
	Name, Content string
	Status        reconciler.Status
}

func (s shelf) GetStatus() reconciler.Status              { return s.Status }
func (s shelf) WithStatus(status reconciler.Status) shelf { s.Status = status; return s }

// store is the target: what is on the shelves. All operations may be repeated, and
// those on different shelves come at the same time. There is nothing to prepare, and
// Observe lists what exists, so that Prune is not needed.
type store struct {
	reconciler.NoInit
	reconciler.NoPrune[shelf]

	mu      sync.Mutex
	shelves map[string]string
}

func (st *store) Update(ctx context.Context, _ statedb.ReadTxn, s shelf) (reconciler.Result, error) {
	if s.Content == "water" {
		return reconciler.Result{}, reconciler.Terminal(fmt.Errorf("shelf %s: water is not kept on shelves", s.Name))
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	content, there := st.shelves[s.Name]
	if ctx.Err() != nil || there && content == s.Content {
		return reconciler.Result{}, ctx.Err()
	}
	st.shelves[s.Name] = s.Content
	return reconciler.Result{Changed: true}, nil
}

func (st *store) Delete(ctx context.Context, _ statedb.ReadTxn, s shelf) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if ctx.Err() == nil {
		delete(st.shelves, s.Name)
	}
	return ctx.Err()
}

func (st *store) Observe(ctx context.Context) iter.Seq2[shelf, error] {
	return func(yield func(shelf, error) bool) {
		for name, content := range st.now() {
			if !yield(shelf{Name: name, Content: content}, ctx.Err()) {
				return
			}
		}
	}
}

func (st *store) now() map[string]string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return maps.Clone(st.shelves)
}

// A table of rows with a status, a target, and a reconciler between them.
func Example() {
	db, byName := statedb.New(), statedb.NewIndex("name", func(s shelf) string { return s.Name })
	shelves, err := statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[shelf]{Name: "shelves", Primary: byName}))
	if err != nil {
		fmt.Println(err)
		return
	}
	target := &store{shelves: map[string]string{"left": "dust"}} // from an earlier time
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
	fmt.Println("stopped:", <-ended, target.now())
	// Output:
	// all is done: <nil>
	// top: reconciler shelves: update top: shelf top: water is not kept on shelves
	// right: done
	// stopped: <nil> map[right:books]
}
