package engine

// lane orders ready items by why they are ready.
type lane uint8

const (
	laneChange  lane = iota // a user changed the row, or one it is made of
	laneManual              // someone asked for it
	laneRetry               // its time has come
	laneRefresh             // a full pass came to it
	lanes
)

var laneNames = [lanes]string{laneChange: "change", laneManual: "manual", laneRetry: "retry", laneRefresh: "refresh"}

func (l lane) String() string { return laneNames[l] }

// shares are how many operations each lane may have in turn while others wait:
// no lane starves, however full another one is.
var shares = [lanes]int{laneChange: 8, laneManual: 8, laneRetry: 4, laneRefresh: 1}

// fifo is a list of items that any one can be taken out of. Its links lie in
// the items, so an item is in one fifo at most.
type fifo struct {
	head, tail *item
	length     int
}

func (f *fifo) push(it *item) {
	it.previous, it.next = f.tail, nil
	if f.tail == nil {
		f.head = it
	} else {
		f.tail.next = it
	}
	f.tail = it
	f.length++
}

func (f *fifo) pushFront(it *item) {
	it.previous, it.next = nil, f.head
	if f.head == nil {
		f.tail = it
	} else {
		f.head.previous = it
	}
	f.head = it
	f.length++
}

func (f *fifo) remove(it *item) {
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
