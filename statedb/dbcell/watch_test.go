package dbcell_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

// watch is a watched listing of the API.
type watch struct {
	t    *testing.T
	next func() (json.RawMessage, error, bool)
}

func (a *agent) watch(path, query string) *watch {
	a.t.Helper()
	q, err := url.ParseQuery("watch&" + query)
	if err != nil {
		a.t.Fatal(err)
	}
	next, stop := iter.Pull2(a.client().Follow(a.t.Context(), path, q))
	a.t.Cleanup(stop)
	return &watch{t: a.t, next: next}
}

// lines returns the kinds and keys of lines until the one that says that this is all.
func (w *watch) lines() (lines []string) {
	w.t.Helper()
	for {
		text, err, more := w.next()
		if err != nil || !more {
			w.t.Fatalf("after %q the answer ended: %v", lines, err)
		}
		var line struct{ Kind, Key, Error string }
		if err := json.Unmarshal(text, &line); err != nil {
			w.t.Fatal(err)
		}
		switch line.Kind {
		case "current":
			return lines
		case "error":
			return append(lines, line.Kind+" "+line.Error)
		}
		lines = append(lines, strings.TrimSpace(line.Kind+" "+line.Key))
	}
}

func (w *watch) want(lines ...string) {
	w.t.Helper()
	if diff := cmp.Diff(lines, w.lines()); diff != "" {
		w.t.Error(diff)
	}
}

func (a *agent) remove(p port) {
	a.t.Helper()
	a.update(func(txn *statedb.WriteTxn) error {
		_, _, err := a.ports.Delete(txn, p)
		return err
	})
}

func TestAWatchedListingGoesOn(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	w := a.watch("/v1/tables/ports", "")
	w.want("head", "upsert eth0 22", "upsert eth0 80", "upsert eth1 22", "upsert wlan0 1")
	a.insert(port{Device: "eth0", Number: 80, Status: "done"})
	w.want("upsert eth0 80")
	a.remove(port{Device: "eth1", Number: 22})
	w.want("delete eth1 22")
}

func TestEverySelectionCanBeWatched(t *testing.T) {
	for query, first := range map[string][]string{
		"key=eth0+80":            {"head", "upsert eth0 80"},
		"index=peer&prefix=ri":   {"head", "upsert eth0 80"},
		"from=eth0+80&to=eth1+0": {"head", "upsert eth0 80"},
		"status=error":           {"head", "upsert eth0 80", "upsert wlan0 1"},
		"index=peer&value=right": {"head", "upsert eth0 80"},
		"limit=3&reverse":        {"head", "upsert wlan0 1", "upsert eth1 22", "upsert eth0 80"},
	} {
		t.Run(query, func(t *testing.T) {
			a := startAgent(t)
			a.insert(fourPorts()...)
			w := a.watch("/v1/tables/ports", query)
			w.want(first...)
			a.insert(port{Device: "eth2", Number: 9}) // is in none but the last
			if lines := w.lines(); strings.HasPrefix(query, "limit") {
				if diff := cmp.Diff([]string{"upsert eth2 9", "delete eth0 80"}, lines); diff != "" {
					t.Error(diff)
				}
			} else if lines != nil {
				t.Errorf("a row that was not asked for: %q", lines)
			}
			a.insert(port{Device: "eth0", Number: 80, PeerName: "right", Status: "error: again"})
			a.remove(port{Device: "eth2", Number: 9})
			for !strings.Contains(strings.Join(w.lines(), ","), "upsert eth0 80") {
				continue
			}
			a.remove(port{Device: "eth0", Number: 80})
			for !strings.Contains(strings.Join(w.lines(), ","), "delete eth0 80") {
				continue
			}
		})
	}
}

func TestARowThatDoesNotExistYetCanBeWatched(t *testing.T) {
	a := startAgent(t)
	w := a.watch("/v1/tables/ports", "key=eth0+80")
	w.want("head")
	a.insert(port{Device: "eth0", Number: 80})
	w.want("upsert eth0 80")
}

func TestAWatchEndsWithItsTable(t *testing.T) {
	a := startAgent(t)
	table, err := statedb.NewTable(a.db, statedb.Schema[note]{
		Name: "short", Primary: statedb.NewIndex("name", func(n note) string { return n.Name }),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := a.watch("/v1/tables/short", "")
	w.want("head")
	if err := a.db.Drop(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if lines := w.lines(); len(lines) != 1 || !strings.HasPrefix(lines[0], `error no such table "short"`) {
		t.Errorf("the last line is %q", lines)
	}
	if _, err, more := w.next(); more {
		t.Errorf("the answer goes on: %v", err)
	}
}

func TestAWatchEndsWithTheAgent(t *testing.T) {
	a := &agent{t: t, socket: filepath.Join(t.TempDir(), "run", "agent.sock")}
	h := a.build()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := a.watch("/v1/tables/ports", "")
	w.want("head")
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err, more := w.next(); more {
		t.Errorf("after the end of the agent: %s %v", text, err)
	}
}

func TestWatchesAreRefusedAsListingsAre(t *testing.T) {
	a := startAgent(t)
	for path, want := range map[string]string{
		"/v1/tables/ports?watch=often":    `parameter "watch" is "often", expected true or false`,
		"/v1/tables/pots?watch":           `no such table "pots"`,
		"/v1/tables/ports?watch&key=eth":  `bad key`,
		"/v1/tables/ports?watch&status=x": `unknown status "x"`,
	} {
		path, query, _ := strings.Cut(path, "?")
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var refused *inspect.APIError
		for _, err := range a.client().Follow(t.Context(), path, q) {
			if !errors.As(err, &refused) {
				t.Errorf("%s?%s: got %v, expected a refusal", path, query, err)
			}
		}
		if refused == nil || !strings.Contains(refused.Message, want) {
			t.Errorf("%s?%s: got %v, expected %q", path, query, refused, want)
		}
	}
}

func TestGetCommandFollowsATable(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()[:2]...)
	out := a.follow("get", "ports", "--watch")
	out.want(
		"CHANGE  DEVICE  NUMBER  PEER-NAME  STATUS",
		"upsert  eth0    22      left       done",
		"upsert  eth0    80      right      error: no <route> to right",
	)
	a.insert(port{Device: "eth0", Number: 80, PeerName: "right", Status: "done"})
	out.want("upsert  eth0    80      right      done")
	a.remove(port{Device: "eth0", Number: 80})
	out.want("delete  eth0    80      right      done")
}

func TestGetCommandFollowsATableAsJSON(t *testing.T) {
	a := startAgent(t)
	a.insert(note{Name: "a", Text: "<b>\u202e"})
	out := a.follow("get", "notes", "--watch", "-o", "json")
	out.want(
		`{"kind":"upsert","key":"a","revision":1,"object":{"name":"a","text":"<b>\u202e"}}`,
		`{"kind":"current","revision":1}`,
	)
}

// followed is the output of a command that goes on.
type followed struct {
	t     *testing.T
	lines *bufio.Reader
}

// follow runs a command until the end of the test.
func (a *agent) follow(args ...string) *followed {
	a.t.Helper()
	root := &cobra.Command{Use: "testhive"}
	if err := cli.Mount(root, (&agent{t: a.t, socket: a.socket}).build()); err != nil {
		a.t.Fatal(err)
	}
	in, out := io.Pipe()
	var errs bytes.Buffer
	root.SetOut(out)
	root.SetErr(&errs)
	root.SetArgs(args)
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan int)
	go func() {
		code := cli.Execute(ctx, root)
		_ = out.CloseWithError(errors.New(errs.String()))
		ended <- code
	}()
	a.t.Cleanup(func() {
		cancel()
		_ = in.Close()
		<-ended
	})
	return &followed{t: a.t, lines: bufio.NewReader(in)}
}

func (f *followed) want(lines ...string) {
	f.t.Helper()
	for _, want := range lines {
		got, err := f.lines.ReadString('\n')
		if strings.TrimSuffix(got, "\n") != want {
			f.t.Fatalf("the command printed %q (%v), expected %q", got, err, want)
		}
	}
}
