package filecell

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/internal/trusted"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

// maxAwaited is how many of the files that block readiness are named.
const maxAwaited = 10

// readyCondition returns a condition that holds back readiness while no version of a file, or nothing of the directory, is in
// force, because desired rows are unknown then. A file that is refused later, while its last valid version stays in force, only
// affects health.
func readyCondition(db *statedb.DB, table *statedb.Table[file.Document]) hive.ConditionOut {
	return hive.NewCondition("documents", func() (waits []string) {
		for d := range table.All(db.ReadTxn()) {
			if d.State == file.OK || d.Rows > 0 {
				continue
			}
			if len(waits) == maxAwaited {
				return append(waits, "more files")
			}
			waits = append(waits, awaited(d))
		}
		return waits
	})
}

// position is the beginning of a problem in a document. What follows may quote the document.
var position = regexp.MustCompile(`^.*?:\d+:\d+: `)

// awaited returns a file's name and the first of its problems, or only its place: anybody who can connect to the address of
// metrics sees what readiness waits for.
func awaited(d file.Document) string {
	if d.State == file.Writing {
		return fmt.Sprintf("%s: is being written, and has not been read yet", trusted.Name(d.File))
	}
	first, _, _ := strings.Cut(d.Error, "\n")
	if place := position.FindString(first); place != "" {
		return place + "is refused"
	}
	return first
}
