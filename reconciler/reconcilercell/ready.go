package reconcilercell

import (
	"fmt"
	"strings"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/statedb"
)

// maxBlocking is how many of the rows that block readiness are named per reconciler.
const maxBlocking = 10

// readyCondition keeps the hive from being ready until every reconciler has finished
// a full pass, and every row that was desired at the start is done or was tried as
// often as configured.
func readyCondition(db *statedb.DB, all *registry, config Config) hive.ConditionOut {
	return hive.NewCondition("reconciler", func() (reasons []string) {
		txn := db.ReadTxn()
		for _, i := range all.instances() {
			if i.Stats().Full.Count == 0 {
				reasons = append(reasons, i.firstPass(txn))
			}
			reasons = append(reasons, i.blocking(txn, config.ReadyTries)...)
		}
		return reasons
	})
}

// firstPass describes why the first full pass has not finished.
func (i instance) firstPass(txn statedb.ReadTxn) string {
	s := i.Summary(txn)
	if len(s.WaitingFor) > 0 {
		return fmt.Sprintf("%s: the first listing of %s", s.Name, strings.Join(s.WaitingFor, ", "))
	}
	return fmt.Sprintf("%s: the end of its first full pass, %d of %d rows are pending", s.Name, s.Pending, s.Rows)
}

// blocking names the rows that were not tried often enough.
func (i instance) blocking(txn statedb.ReadTxn, tries int) (rows []string) {
	for key, state := range i.NotTried(txn, tries) {
		if len(rows) == maxBlocking {
			return append(rows, i.Name()+": more rows")
		}
		state, _, _ = strings.Cut(state, ": ") // errors are only for those who may ask the API
		rows = append(rows, fmt.Sprintf("%s: row %s: %s", i.Name(), key, state))
	}
	return rows
}
