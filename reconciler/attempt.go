package reconciler

import "time"

// Attempt is an operation that failed.
type Attempt struct {
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took"` // in nanoseconds
	Operation string        `json:"operation"`
	Reasons   string        `json:"reasons"` // why it ran
	Error     string        `json:"error"`
}

// keptAttempts is how many are kept of a row that is not done.
const keptAttempts = 5

func (it *item[Obj]) remember(a Attempt) {
	if len(it.tries) == keptAttempts {
		it.tries = it.tries[1:]
	}
	it.tries = append(it.tries, a)
}
