package workqueue

// Class is a priority class of ready items: why they are ready. The lowest is the first.
type Class uint8

// The classes.
const (
	Changes   Class = iota // a user changed the row, or one it is made of
	Manuals                // someone asked for it
	Retries                // its time has come
	Refreshes              // a full pass came to it, or its time has come

	Classes // how many there are
)

var classNames = [Classes]string{"change", "manual", "retry", "refresh"}

// String returns the name of the class.
func (c Class) String() string { return classNames[c] }

// weights are how many operations each class may have in turn while others wait: no class
// starves, however many are ready in another one.
var weights = [Classes]int{Changes: 8, Manuals: 8, Retries: 4, Refreshes: 1}

// Weight returns how many operations a class may have in turn while others wait.
func (c Class) Weight() int { return weights[c] }

// fifo is a list of items that any one can be taken out of. Its links lie in the items, so an
// item is in one fifo at most.
type fifo struct {
	head, tail *Item
	length     int
}

func (f *fifo) push(it *Item) {
	it.previous, it.next = f.tail, nil
	if f.tail == nil {
		f.head = it
	} else {
		f.tail.next = it
	}
	f.tail = it
	f.length++
}

func (f *fifo) pushFront(it *Item) {
	it.previous, it.next = nil, f.head
	if f.head == nil {
		f.tail = it
	} else {
		f.head.previous = it
	}
	f.head = it
	f.length++
}

func (f *fifo) remove(it *Item) {
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
