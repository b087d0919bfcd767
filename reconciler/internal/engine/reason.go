package engine

import "strings"

// reason is why a row is queued: a set.
type reason uint16

const (
	reasonChange     reason = 1 << iota // its spec changed, or it was deleted
	reasonRelated                       // a row of another table that it depends on changed
	reasonEvent                         // an event from outside
	reasonManual                        // Trigger
	reasonRetry                         // its last operation failed
	reasonAgain                         // its last operation asked for it
	reasonRefresh                       // a full pass
	reasonSurplus                       // the target has it and the table does not
	reasonDrift                         // what was observed differs from it
	reasonDependency                    // what it waited for is done
	reasonResume                        // a pause or hold of it has ended
)

var reasonNames = [...]string{
	"change", "related", "event", "manual", "retry", "again", "refresh", "surplus", "drift", "dependency", "resume",
}

// String names the reasons, separated by commas.
func (r reason) String() string {
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// hold is why an item is kept from running, although it has something to do.
type hold uint8

const (
	holdNone       hold = iota
	holdPaused          // by Pause
	holdLimit           // by the limit of changes: it waits for an approval
	holdDependency      // a row that it depends on is not done
	holdOrder           // a row that depends on it has still to be deleted
	holdDrift           // it differs from what is observed, and is not repaired now
	holds
)

var holdNames = [...]string{
	holdNone: "", holdPaused: "paused", holdLimit: "limit", holdDependency: "dependency", holdOrder: "order", holdDrift: "drift",
}

func (h hold) String() string { return holdNames[h] }
