package workqueue

import "strings"

// Reason is a set of reasons to run a row.
type Reason uint16

// The reasons.
const (
	Change    Reason = 1 << iota // its spec changed, or it was deleted
	Related                      // a row of another table that it depends on changed
	Event                        // an event from outside
	Manual                       // Trigger
	Retry                        // its last operation failed
	Repeat                       // its last operation asked for another run
	FullPass                     // a full pass
	Orphan                       // the target has it and the table does not
	Drifted                      // the observed state differs from it
	Unblocked                    // what it waited for is done
	Resume                       // a pause or hold of it has ended
	Elapsed                      // its refresh interval has passed
	Listed                       // it was updated while the observed state was listed
)

var reasonNames = [...]string{
	"change", "related", "event", "manual", "retry", "again", "refresh", "orphan", "drift", "dependency", "resume", "interval", "listing",
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

// OnlyListed reports whether an update during a listing is the only reason to run a row.
func (r Reason) OnlyListed() bool {
	const harmless = Listed | Resume | Unblocked
	return r&Listed != 0 && r&^harmless == 0
}

// OnlyDrift reports whether drift is the only reason to run a row.
func (r Reason) OnlyDrift() bool {
	const harmless = Drifted | Resume | Unblocked
	return r&Drifted != 0 && r&^harmless == 0
}
