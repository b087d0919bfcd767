package workqueue

// Class is a priority class of ready items. Lower values have priority.
type Class uint8

// The classes.
const (
	Changes   Class = iota // the row changed, or one it depends on
	Manuals                // triggered manually
	Retries                // due for a retry, a repetition or a repair
	Refreshes              // due in a full pass, or for a refresh

	Classes // the number of classes
)

var classNames = [Classes]string{"change", "manual", "retry", "refresh"}

// String returns the name of the class.
func (c Class) String() string { return classNames[c] }

// weights are how many operations each class gets per turn while other classes have ready items,
// so that no class starves.
var weights = [Classes]int{Changes: 8, Manuals: 8, Retries: 4, Refreshes: 1}

// Weight returns how many operations the class gets per turn while others have ready items.
func (c Class) Weight() int { return weights[c] }

// fifo is an intrusive list of items, so an item is in at most one fifo.
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
