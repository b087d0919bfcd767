package statedb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/statehive/statehive/statedb"
)

// The histories are recorded from goroutines that write to a few rows, and
// checked against the table as a sequential machine: every answer, revisions
// included, must be that of some order of the calls in which none that had ended
// comes behind one that began later.

// call is one operation of a history.
type call struct {
	kind     string
	row      int
	revision statedb.Revision // the newest one that the caller knows of the row
	value    int              // of the spec or the status
}

// answer is what a call returned.
type answer struct {
	err     error // ErrNotFound or ErrConflict
	applied bool
	row     registerRow // before the call
	all     registers   // for a read
}

// registerRow is a row of the sequential table; revision 0 is none.
type registerRow struct {
	number, status int
	revision, spec statedb.Revision
}

const registerRows = 3

// registers is the sequential table.
type registers struct {
	rows     [registerRows]registerRow
	revision statedb.Revision
}

// apply is what each call does, when it is the only one.
func (r registers) apply(c call) (answer, registers) {
	old := r.rows[c.row]
	a := answer{row: old}
	exists, stale := old.revision > 0, old.spec > c.revision
	switch c.kind {
	case "read":
		return answer{all: r}, r
	case "put":
		a.applied = exists
		r.write(c.row, c.value)
	case "put if absent":
		a.applied = !exists
		if !exists {
			r.write(c.row, c.value)
		}
	case "increment", "swap", "swap delete":
		switch {
		case !exists:
			a.err = statedb.ErrNotFound
		case stale && c.kind != "increment":
			a.err = statedb.ErrConflict
		case c.kind == "increment":
			r.write(c.row, old.number+c.value)
		case c.kind == "swap":
			r.write(c.row, c.value)
		default:
			r.remove(c.row)
		}
	case "remove":
		a.applied = exists
		if exists {
			r.remove(c.row)
		}
	case "amend":
		a.applied = exists && !stale
		if !a.applied {
			a.row = registerRow{}
		} else {
			r.revision++
			r.rows[c.row].status, r.rows[c.row].revision = old.status+c.value, r.revision
		}
	}
	if a.err != nil {
		a.row = registerRow{}
	}
	return a, r
}

func (r *registers) write(row, number int) {
	if old := r.rows[row]; old.revision > 0 && old.number == number {
		return
	}
	r.revision++
	r.rows[row] = registerRow{number: number, revision: r.revision, spec: r.revision}
}

func (r *registers) remove(row int) {
	r.revision++
	r.rows[row] = registerRow{}
}

// seen is an answer without what a caller cannot see.
func (a answer) seen() answer {
	a.row = a.row.seen()
	for i := range a.all.rows {
		a.all.rows[i] = a.all.rows[i].seen()
	}
	return a
}

func (r registerRow) seen() registerRow {
	r.spec = 0
	return r
}

func registersModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registers{} },
		Step: func(state, input, output any) (bool, any) {
			want, next := state.(registers).apply(input.(call))
			return want.seen() == output.(answer), next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// caller makes random calls and remembers what it has seen of the rows.
type caller struct {
	*fixture
	id     int
	kinds  []string
	random *rand.Rand
	known  [registerRows]statedb.Revision
}

func (c *caller) next(n int) call {
	row := c.random.IntN(registerRows)
	next := call{
		kind:     c.kinds[c.random.IntN(len(c.kinds))],
		row:      row,
		revision: c.known[row],
		value:    1 + c.random.IntN(3),
	}
	if next.kind == "swap" {
		next.value = 1_000*(c.id+1) + n // never an equal row
	}
	return next
}

func rowID(row int) string { return string(rune('a' + row)) }

func (c *caller) do(next call) (a answer, err error) {
	if next.kind == "read" {
		a.all = c.read(c.db.ReadTxn())
	} else {
		err = c.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
			runtime.Gosched()
			a, err = c.write(txn, next)
			return err
		}, c.items)
	}
	for row, known := range a.all.rows {
		c.known[row] = max(c.known[row], known.revision)
	}
	for _, expected := range []error{statedb.ErrConflict, statedb.ErrNotFound} {
		if errors.Is(err, expected) {
			return answer{err: expected}, nil
		}
	}
	return a, err
}

func (c *caller) read(txn statedb.ReadTxn) registers {
	r := registers{revision: c.items.Revision(txn)}
	for i, revision := range c.items.All(txn) {
		r.rows[i.ID[0]-'a'] = registerRow{number: i.Number, status: i.Status, revision: revision}
	}
	return r
}

// write makes the call in a transaction, in which nobody else writes: so what
// the row was can be read before.
func (c *caller) write(txn *statedb.WriteTxn, next call) (answer, error) {
	id, row := rowID(next.row), c.read(txn).rows[next.row]
	a := answer{row: row}
	var old item
	var err error
	switch next.kind {
	case "put":
		old, a.applied, err = c.items.Insert(txn, item{ID: id, Number: next.value})
	case "put if absent":
		old, a.applied, err = c.items.InsertIfAbsent(txn, item{ID: id, Number: next.value})
	case "increment":
		old, err = c.items.Modify(txn, byID.Query(id), func(i item) item { i.Number += next.value; return i })
	case "swap":
		old, err = c.items.CompareAndSwap(txn, next.revision, item{ID: id, Number: next.value})
	case "swap delete":
		old, err = c.items.CompareAndDelete(txn, next.revision, item{ID: id})
	case "remove":
		old, a.applied, err = c.items.Delete(txn, item{ID: id})
	case "amend":
		a.applied, err = c.items.Amend(txn, item{ID: id}, next.revision, func(i item) item {
			old = i
			return item{ID: id, Number: -1, Status: i.Status + next.value} // of which the status is taken
		})
		if !a.applied {
			a.row = registerRow{}
		}
	}
	if err == nil && (old.Number != a.row.number || old.Status != a.row.status) {
		return a, fmt.Errorf("%+v returned %+v, the row was %+v", next, old, a.row)
	}
	return a, err
}

// record runs callers at the same time, and returns the history.
func (f *fixture) record(callers [][]string, calls int) []porcupine.Operation {
	var (
		mu      sync.Mutex
		history []porcupine.Operation
	)
	begin := time.Now()
	var running sync.WaitGroup
	for id, kinds := range callers {
		c := &caller{fixture: f, id: id, kinds: kinds, random: rand.New(rand.NewPCG(rand.Uint64(), 1))}
		running.Go(func() {
			for n := range calls {
				next := c.next(n)
				called := time.Since(begin)
				got, err := c.do(next)
				returned := time.Since(begin)
				if err != nil {
					f.t.Errorf("%+v: %v", next, err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: id, Input: next, Call: called.Nanoseconds(), Output: got, Return: returned.Nanoseconds(),
				})
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return history
}

func checkLinearizable(t *testing.T, callers [][]string) {
	t.Helper()
	const histories, calls, patience = 50, 50, 5 * time.Second
	undecided := 0
	for range histories {
		history := newLeanFixture(t).record(callers, calls)
		if t.Failed() {
			return
		}
		result := porcupine.CheckOperationsTimeout(registersModel(), history, patience)
		if result == porcupine.Unknown { // there are too many orders to try where callers are often held up
			undecided++
		}
		if result == porcupine.Illegal {
			for _, o := range history {
				t.Logf("%d–%d client %d %+v: %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
			}
			t.Fatalf("no order of these %d calls explains their answers", len(history))
		}
	}
	if undecided > histories/2 {
		t.Errorf("%d of %d histories could not be decided upon in %v each", undecided, histories, patience)
	}
}

func TestSwapsAreLinearizable(t *testing.T) {
	swapper := []string{"read", "read", "swap", "swap", "swap delete", "put if absent", "put if absent"}
	checkLinearizable(t, [][]string{swapper, swapper, swapper, swapper})
}

func TestSpecAndStatusWritersAreLinearizable(t *testing.T) {
	spec := []string{"put", "increment", "swap", "remove", "read"}
	status := []string{"read", "amend", "amend", "amend"}
	checkLinearizable(t, [][]string{spec, spec, spec, status, status, status, {"read"}})
}
