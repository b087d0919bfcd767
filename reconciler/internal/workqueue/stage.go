package workqueue

import "fmt"

// Stage is where a row is on its way.
type Stage uint8

// The stages of a row. Those from Debounce on are stages of waiting, and those from Paused
// on are held: there is something to be done that must not be done now.
const (
	Rest       Stage = iota // nothing is to be done, or was not read yet: no item
	InRound                 // of the round under way: no item
	Queued                  // ready, in its class
	Running                 // in the hands of a worker
	Stuck                   // still so, long after its deadline
	Committing              // its outcome waits for the status commit

	Debounce // it may change again soon
	Settle   // it was applied, which what is observed has still to show
	Unread   // it is gone, which the feed has still to tell
	Backoff  // it failed, and is tried again
	Terminal // it failed, and repeating does not help
	Again    // its target asked for it
	Refresh  // it is done, and applied again in its time

	Paused     // by hand
	Limit      // too many changes: it waits for an approval
	Dependency // a row that it depends on is not done
	Order      // a row that depends on it has still to be deleted
	Drift      // it differs from what is observed, and is not repaired now

	Stages // how many there are
)

var stageNames = [Stages]string{
	"rest", "round", "queued", "running", "stuck", "committing",
	"debounce", "settle", "unread", "backoff", "terminal", "again", "refresh",
	"paused", "limit", "dependency", "order", "drift",
}

// String returns the name of the stage, as people see it.
func (s Stage) String() string { return stageNames[s] }

// Waiting reports whether rows of the stage wait for something.
func (s Stage) Waiting() bool { return s >= Debounce }

// Held reports whether rows of the stage have something to be done that must not be done now.
func (s Stage) Held() bool { return s >= Paused }

// InHand reports whether a worker has the row, or has had it and its outcome is not written.
func (s Stage) InHand() bool { return s == Running || s == Stuck || s == Committing }

// Failed reports whether rows of the stage have failed and nothing is being done about it.
func (s Stage) Failed() bool { return s == Backoff || s == Terminal || s == Stuck }

// Shown reports whether rows of the stage are listed as not done although nothing has failed.
func (s Stage) Shown() bool { return s.Held() || s == Again }

// stages is a set of stages.
type stages uint32

func setOf(all ...Stage) (set stages) {
	for _, s := range all {
		set |= 1 << s
	}
	return set
}

func (set stages) has(s Stage) bool { return set&(1<<s) != 0 }

// legal has the stages that may follow each stage.
var legal = func() (to [Stages]stages) {
	held := setOf(Paused, Limit, Dependency, Order, Drift)
	later := setOf(Backoff, Terminal, Again)
	to[Rest] = setOf(InRound, Queued, Debounce, Refresh)
	to[InRound] = setOf(Rest, Queued, Running, Committing)
	to[Queued] = setOf(Rest, Running, Settle, Unread, Refresh) | held
	to[Running] = setOf(Queued, Stuck, Committing)
	to[Stuck] = setOf(Committing)
	to[Committing] = setOf(Rest, Queued, Settle, Refresh) | later
	for s := Debounce; s < Stages; s++ {
		to[s] = setOf(Queued, Debounce)
	}
	// A delete that someone has forgotten by hand.
	for _, s := range []Stage{Debounce, Backoff, Terminal, Paused, Limit, Order} {
		to[s] |= setOf(Rest)
	}
	for s := range to {
		to[s] &^= setOf(Stage(s))
	}
	return to
}()

// Legal reports whether a row may come from one stage to another.
func Legal(from, to Stage) bool { return legal[from].has(to) }

// transition brings an item to a stage. It is the only place that does.
func (q *Queue) transition(it *Item, to Stage) {
	from := it.stage
	if from == to {
		return
	}
	if Checked && !Legal(from, to) {
		panic(fmt.Sprintf("workqueue: %s came from stage %v to %v, which is not legal", it.Key, from, to))
	}
	it.stage = to
	q.counts[from]--
	q.counts[to]++
	if q.OnMove != nil {
		q.OnMove(from.String(), to.String())
	}
}
