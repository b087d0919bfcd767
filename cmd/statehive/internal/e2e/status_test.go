package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
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
// rows that have just begun to fail, or wait for their turn, are well. The rows are those
// of the documents as they are: an agent that has not seen the last change of them yet is
// not done.
func (w *world) allDone(ctx context.Context) result {
	unread := w.documentsTaken(ctx)
	r := w.statehive(ctx, "status")
	if r.err == nil {
		r.err = unread
	}
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

// documentsTaken fails unless the agent has read the documents as they are.
func (w *world) documentsTaken(ctx context.Context) error {
	r := w.statehive(ctx, "get", "documents", "-o", "json")
	if r.err != nil {
		return r.failure()
	}
	var rows []struct{ Object struct{ File, SHA256 string } }
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		return err
	}
	taken := map[string]string{}
	for _, row := range rows {
		if file := row.Object; filepath.Dir(file.File) == w.documents() {
			taken[file.File] = file.SHA256
		}
	}
	// The agent may have a mount namespace of its own.
	sums := w.inside(ctx, "find", w.documents(), "-maxdepth", "1", "-name", "[^.]*.yaml", "-exec", "sha256sum", "{}", "+")
	if sums.err != nil {
		return sums.failure()
	}
	are := map[string]string{}
	for line := range strings.Lines(sums.stdout) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		are[file] = sum
	}
	if diff := cmp.Diff(are, taken, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("the agent has not read the documents as they are: %s", diff)
	}
	return nil
}
