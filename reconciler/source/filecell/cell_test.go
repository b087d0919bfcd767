package filecell_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 20 * time.Second

type lamp struct {
	Name  string `yaml:"name"`
	Color string `yaml:"color"`
}

// app is a hive that reads documents of the kind lamp.
type app struct {
	t      *testing.T
	hive   *hive.Hive
	root   *cobra.Command
	dir    string
	out    *bytes.Buffer
	db     *statedb.DB
	lamps  *statedb.Table[lamp]
	health *statedb.Table[health.Status]
	files  *statedb.Table[file.Document]
}

func newApp(t *testing.T, dir string, more ...cell.Cell) *app {
	t.Helper()
	a := &app{t: t, dir: dir, out: &bytes.Buffer{}, root: &cobra.Command{Use: "app", SilenceUsage: true, SilenceErrors: true}}
	socket := filepath.Join(t.TempDir(), "s")
	var err error
	a.hive, err = hive.New(
		hive.Options{
			Name: "app", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			LookupEnv: func(name string) (string, bool) {
				value, ok := map[string]string{"APP_SOCKET": socket, "APP_CONFIG_DIR": dir}[name]
				return value, ok
			},
		},
		inspect.Cell(), filecell.Cell(), cell.Group(more...),
		cell.Module("lamp", "lamps",
			dbcell.Protected(statedb.Schema[lamp]{Name: "lamps", Primary: statedb.NewIndex("name", func(l lamp) string { return l.Name })}),
			filecell.Kind(file.KindConfig[lamp]{Name: "lamp", KeyField: "name"}),
		),
		cell.Invoke(func(db *statedb.DB, lamps *statedb.Table[lamp], status *statedb.Table[health.Status], files *statedb.Table[file.Document]) {
			a.db, a.lamps, a.health, a.files = db, lamps, status, files
		}),
	)
	if err == nil {
		err = cli.Mount(a.root, a.hive)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.root.SetOut(a.out)
	a.root.SetErr(a.out)
	return a
}

func started(t *testing.T) *app {
	t.Helper()
	a := newApp(t, t.TempDir())
	a.write("a.yaml", "kind: lamp\nname: desk\n")
	a.start()
	return a
}

func (a *app) start() {
	a.t.Helper()
	if err := a.hive.Start(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := a.hive.Stop(context.WithoutCancel(a.t.Context())); err != nil {
			a.t.Error(err)
		}
	})
}

func (a *app) write(name, data string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(data), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// status runs the status command. Paths are relative to the directory.
func (a *app) status() (out string, code int) {
	a.t.Helper()
	return a.run("status")
}

// run runs a command. Paths are relative to the directory.
func (a *app) run(args ...string) (out string, code int) {
	a.t.Helper()
	a.out.Reset()
	a.root.SetArgs(args)
	code = cli.Execute(a.t.Context(), a.root)
	return strings.ReplaceAll(strings.ReplaceAll(a.out.String(), a.dir+"/", ""), a.dir, "."), code
}

// within waits until the health of the files says so.
func (a *app) within(level health.Level, message, err string) {
	a.t.Helper()
	late := time.After(deadline)
	for {
		s, _, changed, _ := a.health.GetWatch(a.db.ReadTxn(), health.ByID().Query("documents.files"))
		got := strings.ReplaceAll(strings.ReplaceAll(s.Error, a.dir+"/", ""), a.dir, ".")
		if s.Level == level && s.Message == message && got == err {
			return
		}
		select {
		case <-changed:
		case <-late:
			a.t.Fatalf("health is %v %q %q, want %v %q %q", s.Level, s.Message, got, level, message, err)
		}
	}
}

// eventually waits until something about the table of files is so.
func (a *app) eventually(what string, is func() bool) {
	a.t.Helper()
	late := time.After(deadline)
	for !is() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			a.t.Fatalf("%s is not as it should be after %v", what, deadline)
		}
	}
}

func TestDocumentsBecomeRowsAndErrorsShowInHealthAndStatus(t *testing.T) {
	a := started(t)
	a.within(health.OK, "OK, 1 file with 1 row", "")
	if out, code := a.status(); code != 0 || out != "documents: OK, 1 file with 1 row\n" {
		t.Errorf("status is %q, exit code %d", out, code)
	}

	const first = `a.yaml:3:1: field "colour": unknown field of kind lamp; did you mean "color"? The fields are: color, name` //nolint:misspell // on purpose
	a.write("a.yaml", "kind: lamp\nname: desk\ncolour: red\n---\nkind: lam\n")                                                //nolint:misspell // on purpose
	a.write("b.yaml", "kind: lamp\nname: [\n")
	a.within(health.Degraded, "2 of 2 files refused", first)
	want := "documents: 2 of 2 files refused\n  " + first + "\n" +
		`  a.yaml:5:7: field "kind": unknown kind "lam"; did you mean "lamp"? The kinds are: lamp` + "\n" +
		"  a.yaml: the last valid version stays in force, with 1 row\n" +
		"  b.yaml:3:1: not YAML: did not find expected node content, while parsing a flow node\n"
	if out, code := a.status(); code != 1 || out != want {
		t.Errorf("exit code %d, status is\n%s\nwant\n%s", code, out, want)
	}

	a.write("a.yaml", "kind: lamp\nname: desk\ncolor: red\n")
	a.write("b.yaml", "kind: lamp\nname: wall\n")
	a.within(health.OK, "OK, 2 files with 2 rows", "")
	var got []string
	for l := range a.lamps.All(a.db.ReadTxn()) {
		got = append(got, l.Name+l.Color)
	}
	if want := []string{"deskred", "wall"}; !slices.Equal(got, want) {
		t.Errorf("rows are %v, want %v", got, want)
	}
}

func TestADirectoryWithoutDocumentsIsShownUntilItIsApproved(t *testing.T) {
	a := started(t)
	a.within(health.OK, "OK, 1 file with 1 row", "")
	if out, code := a.run("approve", "documents"); code != 1 || !strings.Contains(out, "nothing waits for approval") {
		t.Errorf("approve with all well: exit code %d, %q", code, out)
	}
	if err := os.Remove(filepath.Join(a.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	const why = ".: the directory no longer has any documents; 1 row stays in force until documents are back or this is approved (approve documents)"
	a.within(health.Degraded, "the directory is not accepted, 1 row in force", why)
	if out, code := a.status(); code != 1 || out != "documents: the directory is not accepted, 1 row in force\n  "+why+"\n" {
		t.Errorf("exit code %d, status is\n%s", code, out)
	}
	if n := a.lamps.Len(a.db.ReadTxn()); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if out, code := a.run("approve", "documents"); code != 0 || out != "documents: . approved as it is: 0 rows in force, 1 withdrawn\n" {
		t.Errorf("approve: exit code %d, %q", code, out)
	}
	if n := a.lamps.Len(a.db.ReadTxn()); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
	a.within(health.OK, "OK, 0 files with 0 rows", "")
	if out, code := a.run("approve", "documents", "-o", "json"); code != 1 || !strings.Contains(out, "nothing waits for approval") {
		t.Errorf("approve again: exit code %d, %q", code, out)
	}
}

func TestAFileThatIsBeingWrittenAtTheStartIsShownAndNoError(t *testing.T) {
	a := newApp(t, t.TempDir())
	a.write("a.yaml", "kind: lamp\nname: desk\n")
	f, err := os.Create(filepath.Join(a.dir, "b.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	a.start()
	a.within(health.OK, "OK, 2 files with 1 row, 1 being written", "")
	want := "documents: OK, 2 files with 1 row, 1 being written\n  b.yaml: is being written; it will be read when that has ended\n"
	if out, code := a.status(); code != 0 || out != want {
		t.Errorf("exit code %d, status is\n%s", code, out)
	}
}

// failingMemory is a file.Memory that stores nothing while its error is set.
type failingMemory struct{ err atomic.Pointer[error] }

func (m *failingMemory) InForce() file.InForce { return file.InForce{} }

func (m *failingMemory) SetInForce(file.InForce) error {
	if err := m.err.Load(); err != nil {
		return *err
	}
	return nil
}

func TestHealthIsNotGreenWhileItCannotBeStoredThatDocumentsAreInForce(t *testing.T) {
	m := &failingMemory{}
	m.err.Store(new(errors.New("disk full")))
	a := newApp(t, t.TempDir(), cell.Provide(func() file.Memory { return m }))
	a.write("a.yaml", "kind: lamp\nname: desk\n")
	a.start()
	a.within(health.Degraded, "1 file with 1 row",
		"cannot store that documents are in force, so that an empty directory at the next start would be the desired state: disk full")
	m.err.Store(nil)
	a.write("b.yaml", "kind: lamp\nname: hall\n")
	a.within(health.OK, "OK, 2 files with 2 rows", "")
}

func TestAKindWithoutASourceFailsTheStart(t *testing.T) {
	lamps := cell.Module("lamp", "lamps",
		dbcell.Protected(statedb.Schema[lamp]{Name: "lamps", Primary: statedb.NewIndex("name", func(l lamp) string { return l.Name })}),
		filecell.Kind(file.KindConfig[lamp]{Name: "lamp"}),
	)
	hook := cell.Invoke(func(l cell.Lifecycle) {
		l.Append(cell.Hook{Name: "what would touch the machine", OnStart: func(context.Context) error {
			t.Error("the hive is started")
			return nil
		}})
	})
	const want = `kind "lamp": nothing reads its documents into table "lamps": the cell filecell.Cell is missing`
	other := cell.Provide(func(db *statedb.DB) (*file.Source, error) {
		return file.New(file.Config{DB: db, Dir: t.TempDir(), Name: "other"})
	})
	for name, cells := range map[string][]cell.Cell{"no source": {hook, lamps}, "a source of other kinds": {hook, lamps, other}} {
		t.Run(name, func(t *testing.T) {
			h, err := hive.New(hive.Options{Name: "app", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, cells...)
			if err == nil {
				err = h.Start(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("start: %v, want %s", err, want)
			}
		})
	}
}

func TestStartFailsWithoutADirectory(t *testing.T) {
	for dir, want := range map[string]string{
		"":             "set --config-dir",
		"/nonexistent": `directory of documents "/nonexistent" cannot be read: no such file or directory`,
		"cell_test.go": `directory of documents "cell_test.go" cannot be read: not a directory`,
	} {
		err := newApp(t, dir).hive.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("directory %q: got %v, want %s", dir, err, want)
		}
	}
}

// A module may choose which documents of another one are stored, from the start on and later.
func TestDocumentsAreChosenByAModule(t *testing.T) {
	var source *file.Source
	color := func(color string) func(lamp) bool { return func(l lamp) bool { return l.Color == color } }
	a := newApp(t, t.TempDir(), cell.Module("choice", "chooses lamps", cell.Invoke(func(s *file.Source) error {
		source = s
		return file.SetFilter(s, "lamp", color("red"))
	})))
	a.write("a.yaml", "kind: lamp\nname: desk\ncolor: red\n---\nkind: lamp\nname: wall\ncolor: green\n")
	a.start()
	a.become("desk")
	if err := file.SetFilter(source, "lamp", color("green")); err != nil {
		t.Fatal(err)
	}
	a.become("wall")
	if out, code := a.status(); code != 0 || out != "documents: OK, 1 file with 1 row\n" {
		t.Errorf("status is %q, exit code %d", out, code)
	}
}

// become waits until there are lamps of these names.
func (a *app) become(want ...string) {
	a.t.Helper()
	late := time.After(deadline)
	for {
		var got []string
		rows, changed := a.lamps.AllWatch(a.db.ReadTxn())
		for l := range rows {
			got = append(got, l.Name)
		}
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-late:
			a.t.Fatalf("lamps are %q, want %q", got, want)
		}
	}
}
