package reconciler

// lane orders ready items by why they are ready.
type lane uint8

const (
	laneChange lane = iota // a user changed the row
	laneRetry              // its time has come
	laneFull               // a full pass came to it
	lanes
)

// shares are how many items each lane may take in turn while others wait: no
// lane starves, however full another one is.
var shares = [lanes]int{laneChange: 8, laneRetry: 4, laneFull: 1}

// fifo is a list of items that any one can be taken out of. Its links lie in
// the items, so an item is in one fifo at most.
type fifo[Obj any] struct {
	head, tail *item[Obj]
	length     int
}

func (f *fifo[Obj]) push(it *item[Obj]) {
	it.previous, it.next = f.tail, nil
	if f.tail == nil {
		f.head = it
	} else {
		f.tail.next = it
	}
	f.tail = it
	f.length++
}

func (f *fifo[Obj]) remove(it *item[Obj]) {
	if it.previous == nil {
		f.head = it.next
	} else {
		it.previous.next = it.next
	}
	if it.next == nil {
		f.tail = it.previous
	} else {
		it.next.previous = it.previous
	}
	it.previous, it.next = nil, nil
	f.length--
}
