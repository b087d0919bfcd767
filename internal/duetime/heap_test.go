package duetime_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/internal/duetime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type item struct {
	due   time.Time
	place int
}

func newHeap() duetime.Heap[*item] {
	return duetime.New(func(it *item) time.Time { return it.due }, func(it *item) *int { return &it.place })
}

// TestTheFirstIsAlwaysTheOneThatIsDueFirst adds, moves and removes items at random.
func TestTheFirstIsAlwaysTheOneThatIsDueFirst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	at := func() time.Time { return time.Unix(random.Int64N(100), 0) }
	heap, there := newHeap(), map[*item]bool{}
	all := make([]*item, 20)
	for i := range all {
		all[i] = &item{place: -1}
	}
	for range 20_000 {
		it := all[random.IntN(len(all))]
		switch remove := random.IntN(2) == 0; {
		case remove:
			heap.Remove(it)
			delete(there, it)
		case there[it]:
			it.due = at()
			heap.Fix(it)
		default:
			it.due = at()
			heap.Add(it)
			there[it] = true
		}
		if (it.place >= 0) != there[it] {
			t.Fatalf("the place is %d, but it is in the heap: %t", it.place, there[it])
		}
		first, ok := heap.First()
		if ok != (len(there) > 0) || heap.Len() != len(there) {
			t.Fatalf("there is a first one: %t, of %d, expected %d", ok, heap.Len(), len(there))
		}
		for it := range there {
			if it.due.Before(first.due) {
				t.Fatalf("the first is due at %v, another one at %v", first.due, it.due)
			}
		}
	}
}

func TestAnItemThatIsNotThereIsNotRemoved(t *testing.T) {
	heap := newHeap()
	heap.Add(&item{})
	heap.Remove(&item{place: -1})
	if heap.Len() != 1 {
		t.Errorf("%d items", heap.Len())
	}
}
