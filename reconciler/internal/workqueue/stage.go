package workqueue

import "fmt"

// Stage is a stage in the life of a row.
type Stage uint8

// The stages of a row. The stages from Debounce on are waiting stages. From Paused on, the
// row is held: it has work pending that must not be done now.
const (
	Rest       Stage = iota // nothing to do, or not read yet: no item
	InRound                 // in the current round: no item
	Queued                  // ready, in its class
	Running                 // a worker has it
	Stuck                   // a worker still has it, long after its deadline
	Committing              // its outcome waits for the status commit

	Debounce // it may change again soon
	Settle   // quiet period: observations may not show the last update yet
	Unread   // it was deleted, but the feed has not delivered the delete yet
	Backoff  // it failed, and will be retried
	Terminal // it failed for good
	Again    // its target asked for another run
	Refresh  // it is done, and will be refreshed

	Paused     // paused manually
	Limit      // too many changes; waits for an approval
	Dependency // a row that it depends on is not done
	Order      // a row that depends on it is not deleted yet
	Drift      // it differs from the observed state, but is not repaired now

	Stages // the number of stages
)

var stageNames = [Stages]string{
	"rest", "round", "queued", "running", "stuck", "committing",
	"debounce", "settle", "unread", "backoff", "terminal", "again", "refresh",
	"paused", "limit", "dependency", "order", "drift",
}

// String returns the name of the stage.
func (s Stage) String() string { return stageNames[s] }

// Waiting reports whether it is a waiting stage.
func (s Stage) Waiting() bool { return s >= Debounce }

// Held reports whether rows in the stage are held.
func (s Stage) Held() bool { return s >= Paused }

// InHand reports whether a worker has the row, or its outcome is not written yet.
func (s Stage) InHand() bool { return s == Running || s == Stuck || s == Committing }

// Failed reports whether rows in the stage have failed and are idle.
func (s Stage) Failed() bool { return s == Backoff || s == Terminal || s == Stuck }

// Shown reports whether rows in the stage are listed as not done even without a failure.
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
	// Engine.Forget drops a delete.
	for _, s := range []Stage{Debounce, Backoff, Terminal, Paused, Limit, Order} {
		to[s] |= setOf(Rest)
	}
	for s := range to {
		to[s] &^= setOf(Stage(s))
	}
	return to
}()

// Legal reports whether a row may move from one stage to another.
func Legal(from, to Stage) bool { return legal[from].has(to) }

// transition moves an item to a stage. Nothing else changes the stage of a queued item.
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
