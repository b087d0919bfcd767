package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// counts are the rows of a reconciler, and those that are done; what is being
// deleted is no row any more.
type counts struct{ Rows, Done, Deleting int }

// countsIn reads them from what status prints.
func countsIn(status string) map[string]counts {
	all := map[string]counts{}
	for line := range strings.Lines(status) {
		words := strings.Fields(line)
		if len(words) == 0 {
			break // the next section
		}
		if len(words) < 6 {
			continue
		}
		rows, err := strconv.Atoi(words[1])
		done, doneErr := strconv.Atoi(words[2])
		deleting, deletingErr := strconv.Atoi(words[5])
		if errors.Join(err, doneErr, deletingErr) == nil {
			all[words[0]] = counts{rows, done, deleting}
		}
	}
	return all
}

// differ compares what is counted of each kind. Kinds of which there is nothing do not
// matter.
func differ[Count comparable](want, is map[string]Count) string {
	nothing := func(_ string, c Count) bool { return c == *new(Count) }
	want, is = maps.Clone(want), maps.Clone(is)
	maps.DeleteFunc(want, nothing)
	maps.DeleteFunc(is, nothing)
	return cmp.Diff(want, is, cmpopts.EquateEmpty())
}

// allDone prints the status. It fails unless all is well and all rows are done:
// rows that have just begun to fail, or wait for their turn, are well.
func (w *world) allDone(ctx context.Context) result {
	r := w.statehive(ctx, "status")
	if r.err != nil {
		return r
	}
	all := countsIn(r.stdout)
	if len(all) == 0 {
		r.err = errors.New("no reconcilers in the status")
	}
	for name, c := range all {
		if c.Done < c.Rows || c.Deleting > 0 {
			r.err = fmt.Errorf("%s: %d of %d rows are done, %d are being deleted", name, c.Done, c.Rows, c.Deleting)
		}
	}
	return r
}
