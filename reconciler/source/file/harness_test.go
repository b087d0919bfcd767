package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

// harness is a source on a directory. It is used in synctest bubbles, where the
// time to settle passes at once.
type harness struct {
	fixture
	t      *testing.T
	dir    string
	source *Source
	log    *strings.Builder
	cursor *statedb.Cursor[route]
}

func newHarness(t *testing.T, files map[string]string) *harness {
	t.Helper()
	return newHarnessOf(t, newFixture(t), files)
}

func newHarnessOf(t *testing.T, f fixture, files map[string]string) *harness {
	t.Helper()
	h := &harness{fixture: f, t: t, dir: t.TempDir(), log: &strings.Builder{}}
	for name, data := range files {
		h.write(name, data)
	}
	var err error
	h.source, err = New(Config{DB: h.db, Dir: h.dir, Kinds: h.kinds(t), Logger: plainLogger(h.log)})
	if err != nil {
		t.Fatal(err)
	}
	h.cursor = h.routes.Changes(0)
	t.Cleanup(h.cursor.Close)
	return h
}

// emptyE is the error of a file without anything in it.
const emptyE = "has no documents, which may be a failed write: expected documents, or a comment that there are none; or remove the file"

func (h *harness) path(name string) string { return filepath.Join(h.dir, name) }

func (h *harness) write(name, data string) {
	h.t.Helper()
	h.must(os.WriteFile(h.path(name), []byte(data), 0o600))
}

func (h *harness) remove(name string) {
	h.t.Helper()
	h.must(os.Remove(h.path(name)))
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// look looks once.
func (h *harness) look() time.Duration {
	h.t.Helper()
	again, err := h.source.reload(context.Background(), unwatched{})
	h.must(err)
	return again
}

// settle looks until there is no doubt left.
func (h *harness) settle() {
	h.t.Helper()
	for again := h.look(); again < impaired; again = h.look() {
		<-time.After(again)
	}
}

// wantRoutes compares the routes, as "destination device" in the order of their keys.
func (h *harness) wantRoutes(want ...string) {
	h.t.Helper()
	var got []string
	for r := range h.routes.All(h.db.ReadTxn()) {
		got = append(got, strings.TrimSpace(r.Destination.String()+" "+r.Device))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// wantState compares what the tables know of the source. Paths are relative to the directory.
func (h *harness) wantState(initialized bool, incomplete string) {
	h.t.Helper()
	want := []statedb.SourceState{{Name: "documents", Initialized: initialized, Incomplete: incomplete}}
	for _, sources := range [][]statedb.SourceState{h.routes.Sources(h.db.ReadTxn()), h.sets.Sources(h.db.ReadTxn())} {
		for i := range sources {
			sources[i].Incomplete = h.relative(sources[i].Incomplete)
		}
		if diff := cmp.Diff(want, sources); diff != "" {
			h.t.Errorf("sources (-want +got):\n%s", diff)
		}
	}
}

func (h *harness) relative(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, h.dir+"/", ""), h.dir, ".")
}

// wantDocuments compares the table of files, as "file state documents/rows: errors".
func (h *harness) wantDocuments(want ...string) {
	h.t.Helper()
	var got []string
	for d := range h.source.Documents().All(h.db.ReadTxn()) {
		line := fmt.Sprintf("%s %s %d/%d", d.File, d.State, d.Documents, d.Rows)
		if d.Error != "" {
			line += ": " + d.Error
		}
		got = append(got, h.relative(line))
		if d.Since.IsZero() {
			h.t.Errorf("%s: Since is zero", d.File)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("documents (-want +got):\n%s", diff)
	}
}

// wantChanges compares the changes of routes since it was called last.
func (h *harness) wantChanges(want ...string) {
	h.t.Helper()
	var got []string
	for c := range h.cursor.Next(h.db.ReadTxn()) {
		kind := map[statedb.ChangeKind]string{statedb.Upsert: "+", statedb.Delete: "-", statedb.Reset: "reset"}[c.Kind]
		got = append(got, kind+c.Object.Destination.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// wantLog compares what was logged since it was called last.
func (h *harness) wantLog(want ...string) {
	h.t.Helper()
	got := strings.Split(strings.TrimSpace(h.relative(h.log.String())), "\n")
	if h.log.Len() == 0 {
		got = nil
	}
	h.log.Reset()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("log (-want +got):\n%s", diff)
	}
}

// routeTo is a document.
func routeTo(destination, device string) string {
	return fmt.Sprintf("kind: route\ndestination: %s\ndevice: %s\n", destination, device)
}

func documents(all ...string) string { return strings.Join(all, "---\n") }

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
