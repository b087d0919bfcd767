package filecell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/statedb/dbcell"
)

// Each refusal is a metric by its reason, whatever the number of files, and the source is incomplete by name.
func TestRefusedFilesAreMetricsByReason(t *testing.T) {
	var registry *prometheus.Registry
	a := newApp(t, t.TempDir(), metricsCells(&registry))
	a.write("good.yaml", "kind: lamp\nname: desk\n")
	a.start()
	a.within(health.OK, "OK, 1 file with 1 row", "")
	refused := func(directory, duplicate, invalid, unreadable string) string {
		return `
# HELP acme_documents_refused_files Files whose newest version is not in force, including the directory itself, by reason.
# TYPE acme_documents_refused_files gauge
acme_documents_refused_files{reason="directory"} ` + directory + `
acme_documents_refused_files{reason="duplicate"} ` + duplicate + `
acme_documents_refused_files{reason="invalid"} ` + invalid + `
acme_documents_refused_files{reason="unreadable"} ` + unreadable + "\n"
	}
	want := func(expected string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expected), names...); err != nil {
			t.Error(err)
		}
	}
	const name = "acme_documents_refused_files"
	want(refused("0", "0", "0", "0"), name)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}

	a.write("a.yaml", "kind: lamp\ncolour: red\n") //nolint:misspell // on purpose
	a.write("b.yaml", "kind: lamp\nname: [\n")
	a.write("c.yaml", "kind: lamp\nname: desk\n")
	a.write("d.yaml", "kind: lamp\nname: wall\n")
	if err := os.Chmod(filepath.Join(a.dir, "d.yaml"), 0o666); err != nil { // others could write it
		t.Fatal(err)
	}
	a.refuses(5) // good.yaml, too, has a document whose key another one has
	want(refused("0", "2", "2", "1"), name)
	incomplete := func(value string) string {
		return `
# HELP acme_table_source_incomplete 1 if rows that the source should deliver may be missing from the table, else 0.
# TYPE acme_table_source_incomplete gauge
acme_table_source_incomplete{source="documents",table="lamps"} ` + value + `
# HELP acme_table_source_initialized 1 if the source of the table has delivered its first listing, else 0.
# TYPE acme_table_source_initialized gauge
acme_table_source_initialized{source="documents",table="lamps"} 1
`
	}
	want(incomplete("1"), "acme_table_source_incomplete", "acme_table_source_initialized")

	for _, f := range []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml", "good.yaml"} {
		if err := os.Remove(filepath.Join(a.dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	a.refuses(1)
	want(refused("1", "0", "0", "0"), name)
	if out, code := a.run("approve", "documents"); code != 0 {
		t.Fatal(out)
	}
	want(refused("0", "0", "0", "0"), name)
	want(incomplete("0"), "acme_table_source_incomplete", "acme_table_source_initialized")
}

// refuses waits until a number of rows of the table of files are in error.
func (a *app) refuses(want int) {
	a.t.Helper()
	a.eventually("the number of refused files", func() bool {
		n := 0
		for d := range a.files.All(a.db.ReadTxn()) {
			if d.Error != "" {
				n++
			}
		}
		return n == want
	})
}

func metricsCells(registry **prometheus.Registry) cell.Cell {
	return cell.Group(
		cell.Provide(
			func() metrics.Prefix { return "acme" }, prometheus.NewRegistry,
			func(r *prometheus.Registry) prometheus.Registerer { return r },
		),
		dbcell.Cell(), cell.Invoke(func(r *prometheus.Registry) { *registry = r }),
	)
}

// One bad file keeps a hive with the kind of its rows from being ready, and readiness names the file as long as it does.
func TestReadinessNamesTheFileThatIsAwaited(t *testing.T) {
	var readiness *hive.Readiness
	a := newApp(t, t.TempDir(), cell.Invoke(func(r *hive.Readiness) { readiness = r }))
	a.write("a.yaml", "kind: lamp\nname: desk\n")
	a.write("bad.yaml", "kind: lamp\ncolour: red\n") //nolint:misspell // on purpose
	a.start()
	a.refuses(1)
	for i := range 30 {
		a.write(fmt.Sprintf("more-%02d.yaml", i), "kind: lam\n")
	}
	a.refuses(31)
	ready, waits := readiness.Ready()
	text := strings.Join(waits, "\n")
	if ready || len(waits) != 11 || !strings.Contains(text, "documents: ") || !strings.Contains(text, "bad.yaml:2:1: is refused\n") || strings.Contains(text, "colour") { //nolint:misspell // on purpose
		t.Errorf("ready: %t, waits for %q", ready, text)
	}
	for i := range 30 {
		if err := os.Remove(filepath.Join(a.dir, fmt.Sprintf("more-%02d.yaml", i))); err != nil {
			t.Fatal(err)
		}
	}
	a.write("bad.yaml", "kind: lamp\nname: wall\n")
	a.refuses(0)
	a.eventually("readiness", func() bool { ready, _ := readiness.Ready(); return ready })

	// What comes later is a matter of health.
	a.write("new.yaml", "kind: lam\n")
	a.refuses(1)
	if ready, waits := readiness.Ready(); !ready {
		t.Errorf("not ready any more: %q", waits)
	}
}
