package reconcilercell

import (
	"fmt"
	"strings"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/statedb"
)

// maxBlocking is how many of the rows that block readiness are named per reconciler.
const maxBlocking = 10

// readyCondition keeps the hive from being ready until every reconciler has ended
// a full pass and what was desired at the start has been tried: with success, or
// as often as configured.
func readyCondition(db *statedb.DB, all *registry, config Config) hive.ConditionOut {
	return hive.NewCondition("reconciler", func() (waits []string) {
		txn := db.ReadTxn()
		for _, i := range all.instances() {
			if i.Stats().Full.Count == 0 {
				waits = append(waits, i.firstPass(txn))
			}
			waits = append(waits, i.blocking(txn, config.ReadyTries)...)
		}
		return waits
	})
}

// firstPass describes what the first full pass waits for.
func (i instance) firstPass(txn statedb.ReadTxn) string {
	s := i.Summary(txn)
	if len(s.WaitingFor) > 0 {
		return fmt.Sprintf("%s: the first listing of %s", s.Name, strings.Join(s.WaitingFor, ", "))
	}
	return fmt.Sprintf("%s: the end of its first full pass, %d of %d rows are pending", s.Name, s.Pending, s.Rows)
}

// blocking names rows that were not tried often enough.
func (i instance) blocking(txn statedb.ReadTxn, tries int) (waits []string) {
	for key, state := range i.NotTried(txn, tries) {
		if len(waits) == maxBlocking {
			return append(waits, i.Name()+": more rows")
		}
		waits = append(waits, fmt.Sprintf("%s: row %s: %s", i.Name(), key, state))
	}
	return waits
}
