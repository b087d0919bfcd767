package workqueue

import "strings"

// Reason is why a row is to be run: a set.
type Reason uint16

// The reasons.
const (
	Change    Reason = 1 << iota // its spec changed, or it was deleted
	Related                      // a row of another table that it depends on changed
	Event                        // an event from outside
	Manual                       // Trigger
	Retry                        // its last operation failed
	Repeat                       // its last operation asked for it
	FullPass                     // a full pass
	Orphan                       // the target has it and the table does not
	Drifted                      // what was observed differs from it
	Unblocked                    // what it waited for is done
	Resume                       // a pause or hold of it has ended
	Elapsed                      // its refresh interval has passed
)

var reasonNames = [...]string{
	"change", "related", "event", "manual", "retry", "again", "refresh", "orphan", "drift", "dependency", "resume", "interval",
}

// String returns the names of the reasons, separated by commas.
func (r Reason) String() string {
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// OnlyDrift reports whether a row is to be run for nothing but what was observed of it.
func (r Reason) OnlyDrift() bool {
	const harmless = Drifted | Resume | Unblocked
	return r&Drifted != 0 && r&^harmless == 0
}
