package reconcilercell

import (
	"fmt"
	"strings"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/statedb"
)

// readyCondition keeps the hive from being ready until every reconciler has ended
// a full pass: what was desired at the start has been tried then, whether it
// succeeded or not.
func readyCondition(db *statedb.DB, all *registry) hive.ConditionOut {
	return hive.NewCondition("reconciler", func() (waits []string) {
		txn := db.ReadTxn()
		for _, i := range all.instances() {
			if i.Stats().Full.Count == 0 {
				waits = append(waits, i.firstPass(txn))
			}
		}
		return waits
	})
}

// firstPass says what the first full pass waits for.
func (i instance) firstPass(txn statedb.ReadTxn) string {
	s := i.Summary(txn)
	if len(s.WaitingFor) > 0 {
		return fmt.Sprintf("%s: the first listing of %s", s.Name, strings.Join(s.WaitingFor, ", "))
	}
	return fmt.Sprintf("%s: the end of its first full pass, %d of %d rows are pending", s.Name, s.Pending, s.Rows)
}
