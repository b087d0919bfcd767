package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// lamp is a kind of document, whose target does nothing.
type lamp struct {
	Name   string            `yaml:"name"`
	Status reconciler.Status `yaml:"-"`
}

func (l lamp) GetStatus() reconciler.Status        { return l.Status }
func (l lamp) WithStatus(s reconciler.Status) lamp { l.Status = s; return l }
func (l lamp) normalized() (lamp, error)           { return l, nil }
func lampName() statedb.Index[lamp, string] {
	return statedb.NewIndex("name", func(l lamp) string { return l.Name })
}

func optionName() statedb.Index[option, string] {
	return statedb.NewIndex("name", func(o option) string { return o.Name })
}
func (lampTarget) Delete(context.Context, statedb.ReadTxn, lamp) error { return nil }

type lampTarget struct {
	reconciler.NoInit
}

func (lampTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[lamp, statedb.Revision]) (int, error) {
	return 0, nil
}

func (lampTarget) Update(context.Context, statedb.ReadTxn, lamp) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}

// option is a row that may be written by name.
type option struct {
	Name  string
	Value uint8
}

// apiBed is the API of a running hive that has all endpoints of the agent, without a socket.
type apiBed struct {
	handler http.Handler
	db      *statedb.DB
	lamps   *statedb.Table[lamp]
	options *statedb.Table[option]
}

type apiParts struct {
	cell.In

	DB        *statedb.DB
	Endpoints []inspect.Endpoint `group:"inspect-endpoints"`
	Lamps     *statedb.Table[lamp]
	Options   *statedb.Table[option]
	Readiness *hive.Readiness
}

func newAPIBed(tb testing.TB) *apiBed {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("kind: lamp\nname: desk\n---\nkind: lamp\nname: wall\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	settings := map[string]string{"TEST_SOCKET": filepath.Join(tb.TempDir(), "s"), "TEST_CONFIG_DIR": dir}
	var parts apiParts
	h, err := hive.New(hive.Options{
		Name: "test", Logger: slog.New(slog.DiscardHandler),
		LookupEnv: func(name string) (string, bool) { value, ok := settings[name]; return value, ok },
	},
		inspect.Cell(), healthcell.Cell(), hivecell.Cell(), dbcell.Cell(), reconcilercell.Cell(), filecell.Cell(), dryruncell.Cell(),
		dbcell.Open(statedb.Schema[option]{Name: "options", Primary: optionName(), WritableByName: true}),
		kindcell.Cell(
			kindcell.Kind[lamp]{
				Name: "lamp", Title: "lamps", KeyField: "name", Default: func() lamp { return lamp{} }, Normalized: lamp.normalized,
				Schema: reconciler.Reconciled(statedb.Schema[lamp]{Name: "lamps", Primary: lampName()}),
			},
			cell.ProvidePrivate(func() reconciler.Target[lamp] { return lampTarget{} }),
		),
		cell.Invoke(func(p apiParts) { parts = p }),
	)
	if err == nil {
		err = h.Start(tb.Context())
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		ready, waits := parts.Readiness.Ready()
		if ready {
			break
		}
		if time.Since(began) > 30*time.Second {
			tb.Fatalf("not ready: %q", waits)
		}
	}
	b := &apiBed{db: parts.DB, lamps: parts.Lamps, options: parts.Options}
	if b.handler, err = inspect.NewHandler(parts.Endpoints); err != nil {
		tb.Fatal(err)
	}
	return b
}

// send returns the status and the answer. What goes on is cut off soon.
func (b *apiBed) send(tb testing.TB, method, target, body string) (int, string) {
	tb.Helper()
	return b.sendFor(tb, 2*time.Second, method, target, body)
}

// sendFor is send with the time that a client has.
func (b *apiBed) sendFor(tb testing.TB, timeout time.Duration, method, target, body string) (int, string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+target, strings.NewReader(body))
	if err != nil {
		tb.Skip(err)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// state is all that a request could change.
func (b *apiBed) state(tb testing.TB) string {
	tb.Helper()
	var text strings.Builder
	txn := b.db.ReadTxn()
	for l := range b.lamps.All(txn) {
		fmt.Fprintf(&text, "lamp %s\n", l.Name)
	}
	for o := range b.options.All(txn) {
		fmt.Fprintf(&text, "option %+v\n", o)
	}
	_, limits := b.send(tb, http.MethodPost, "/v1/reconcilers/lamps/limits", "")
	text.WriteString(limits)
	return text.String()
}

// paused is how many rows are paused. Requests that were accepted may change it later.
func (b *apiBed) paused(tb testing.TB) int {
	tb.Helper()
	_, answer := b.send(tb, http.MethodGet, "/v1/reconcilers", "")
	var all []struct{ Paused int }
	if err := json.Unmarshal([]byte(answer), &all); err != nil || len(all) != 1 {
		tb.Fatal(err, answer)
	}
	return all[0].Paused
}

func TestRequestsThatMakeNoSenseAreRefusedAndChangeNothing(t *testing.T) {
	b := newAPIBed(t)
	if status, answer := b.send(t, http.MethodPut, "/v1/tables/options/rows", `{"Name":"a","Value":1}`); status != http.StatusOK {
		t.Fatal(answer)
	}
	if status, answer := b.send(t, http.MethodPost, "/v1/reconcilers/lamps/limits?rate=7&burst=2", ""); status != http.StatusOK {
		t.Fatal(answer)
	}
	before := b.state(t)
	var tests []string // METHOD TARGET BODY WANT, separated by blanks
	const lamps, options = "/v1/reconcilers/lamps", "/v1/tables/options"
	for _, value := range []string{"NaN", "Inf", "-Inf", "-1", "1e-300", "1e300", "1e999", "", "x", "0x", "1&rate=2", "1;burst=2"} {
		tests = append(tests, "POST "+lamps+"/limits?rate="+value)
	}
	for _, param := range []string{"round=", "rate=5&burst="} {
		for _, value := range []string{"0", "-1", "1.5", "1e3", "99999999999999999999", "9223372036854775807", "NaN", "", "1&round=2&burst=3"} {
			tests = append(tests, "POST "+lamps+"/limits?"+param+value)
		}
	}
	for _, value := range []string{"0s", "-1m", "1", "NaN", "1e9h", "9999999999h", "20000h", "", "1m&for=2m"} {
		tests = append(tests, "POST "+lamps+"/pause?all=1&for="+value)
	}
	for _, action := range []string{"trigger", "pause", "resume"} {
		for _, selection := range []string{"", "?key=none", "?keys=desk", "?key=desk&all=1", "?status=fine", "?status=done&status=done", "?where=name", "?where=none=1", "?key=desk&key=none"} {
			tests = append(tests, "POST "+lamps+"/"+action+selection)
		}
		tests = append(tests, "GET "+lamps+"/"+action+"?all=1", "POST /v1/reconcilers/none/"+action+"?all=1", "POST "+lamps+"/"+action+"?all=1 {}")
	}
	tests = append(
		tests, "POST "+lamps+"/limits?rat=5", "POST "+lamps+`/limits {"rate":5}`, "POST "+lamps+"/limits?burst=5", "PUT "+lamps+"/limits?rate=5", "PATCH "+lamps,
		"POST "+lamps+"/full?now=1", "POST "+lamps+"/full {}", "POST "+lamps+"/forget", "POST "+lamps+"/forget?key=none", "POST "+lamps+"/forget?key=desk",
		"POST "+lamps+"/approve", "POST "+lamps+"/approve?plan=", "POST "+lamps+"/approve?plan=x&plan=y", "POST "+lamps+"/approve?plan=x",
		"GET "+lamps+"/explain", "GET "+lamps+"/explain?key=none", "GET "+lamps+"/explain?key=desk&x=1", "GET "+lamps+"/plan?x=1", "GET "+lamps+"/failures?x=1",
		"POST /v1/documents/approve", "POST /v1/documents/approve?force=1", "POST /v1/documents/approve {}", "GET /v1/documents/approve",
		"POST /v1/plan", "POST /v1/plan {}", `POST /v1/plan {"file":[]}`, `POST /v1/plan {"files":[],"force":true}`, `POST /v1/plan {"files":[]}{}`, `POST /v1/plan {"files":1}`, `POST /v1/plan [`, `POST /v1/plan?x=1 {"files":[]}`,
		"GET "+options+"?limit=-1", "GET "+options+"?limit=1e9", "GET "+options+"?limit=", "GET "+options+"?limits=1", "GET "+options+"?watch=maybe", "GET "+options+"?reverse=2", "GET "+options+"?value=1", "GET "+options+"?index=none&value=1", "GET "+options+"?key=a&prefix=a", "GET "+options+"?limit=1&limit=2", "GET "+options+"?%zz", "GET /v1/tables/none",
		"PUT "+options+"/rows", "PUT "+options+`/rows {"Name":"a","Value":256}`, "PUT "+options+`/rows {"Name":"a","Value":-1}`, "PUT "+options+`/rows {"Name":"a","Valeu":1}`, "PUT "+options+`/rows [{"Name":"b"},{"Name":"b"}]`,
		"PUT "+options+`/rows?revision=-1 {"Name":"a"}`, "PUT "+options+`/rows?revision=1e3 {"Name":"a"}`, "PUT "+options+`/rows?revision=99999 {"Name":"a"}`, "PUT "+options+`/rows?rev=1 {"Name":"a"}`, "PUT /v1/tables/lamps/rows "+`{"Name":"a"}`, "POST "+options+`/rows {"Name":"c"}`,
		"DELETE "+options+"/rows", "DELETE "+options+"/rows?key=none", "DELETE "+options+"/rows?key=a&revision=-1", "DELETE "+options+"/rows?key=a&revision=99999", "DELETE "+options+"/rows?key=a {}", "DELETE /v1/tables/lamps/rows?key=desk", "DELETE "+options+"?key=a",
		"GET /v1/tables?memory=2", "GET /v1/tables?x=1", "POST /v1/tables",
	)
	for _, path := range []string{"/v1/agent", "/v1/health", "/v1/hive", "/v1/settings", "/v1/documents", "/v1/reconcilers"} {
		tests = append(tests, "GET "+path+"?x=1", "POST "+path, "DELETE "+path, "GET "+path+" {}")
	}
	for _, test := range tests {
		method, rest, _ := strings.Cut(test, " ")
		target, body, _ := strings.Cut(rest, " ")
		status, answer := b.send(t, method, target, body)
		var told struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &told); err != nil || status < 400 || status > 499 || len(told.Error) < 10 {
			t.Errorf("%s: %d %s (%v)", test, status, answer, err)
		}
		if now := b.state(t); now != before {
			t.Fatalf("%s has changed something: %q, was %q", test, now, before)
		}
	}
	if n := b.paused(t); n != 0 {
		t.Errorf("%d rows are paused", n)
	}
}

// The agent has no endpoint that these tests do not have.
func TestAllEndpointsAreTested(t *testing.T) {
	var agents, tested []string
	collect := func(of *[]string, from []inspect.Endpoint) {
		for _, e := range from {
			*of = append(*of, e.Pattern)
		}
		slices.Sort(*of)
	}
	h, err := hive.New(hive.Options{
		Name: name, Logger: slog.New(slog.DiscardHandler),
		LookupEnv: func(v string) (string, bool) {
			value, ok := map[string]string{"STATEHIVE_CONFIG_DIR": t.TempDir(), "STATEHIVE_STATE_DIR": t.TempDir(), "STATEHIVE_METRICS_ADDRESS": ""}[v]
			return value, ok
		},
	}, append(cells(&surroundings{}), cell.Invoke(func(p struct {
		cell.In
		Endpoints []inspect.Endpoint `group:"inspect-endpoints"`
	},
	) error {
		collect(&agents, p.Endpoints)
		return io.EOF // it is not to be started
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err == nil || len(agents) == 0 {
		t.Fatalf("got %v", err)
	}
	parts := newAPIBed(t)
	_, answer := parts.send(t, http.MethodGet, "/nothing", "")
	_, list, _ := strings.Cut(answer, "there are: ")
	tested = strings.Split(strings.TrimSuffix(strings.TrimSpace(list), `"}`), ", ")
	if !slices.Equal(agents, tested) {
		t.Errorf("the agent has %q, tested are %q", agents, tested)
	}
}
