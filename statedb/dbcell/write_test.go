package dbcell_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

// send changes a table, and returns the keys in the answer.
func (a *agent) send(method, path string, query url.Values, body string) (rows []string, err error) {
	a.t.Helper()
	var answer struct {
		Rows []struct{ Key string }
	}
	err = a.client().Send(a.t.Context(), method, path, query, []byte(body), &answer)
	for _, row := range answer.Rows {
		rows = append(rows, row.Key)
	}
	return rows, err
}

// raw is send with a query as it stands; it returns the status and the text of the error.
func (a *agent) raw(method, path, query, body string) (int, string) {
	a.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}}
	target := url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: query}
	r, err := http.NewRequestWithContext(a.t.Context(), method, target.String(), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var failed struct{ Error string }
	if err := json.NewDecoder(answer.Body).Decode(&failed); err != nil {
		a.t.Error(err)
	}
	return answer.StatusCode, failed.Error
}

func (a *agent) put(body string) ([]string, error) {
	a.t.Helper()
	return a.send(http.MethodPut, "/v1/tables/notes/rows", nil, body)
}

// allNotes are the notes as "name=text".
func (a *agent) allNotes() (all []string) {
	for n := range a.notes.All(a.db.ReadTxn()) {
		all = append(all, n.Name+"="+n.Text)
	}
	return all
}

func (a *agent) wantNotes(want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.allNotes()); diff != "" {
		a.t.Error(diff)
	}
}

func wantAPIError(t *testing.T, what string, err error, status int, text string) {
	t.Helper()
	var got *inspect.APIError
	if !errors.As(err, &got) || got.Status != status || !strings.Contains(got.Message, text) {
		t.Errorf("%s: got %v (%+v), want status %d and %q", what, err, got, status, text)
	}
}

func TestRowsArePutTogetherOrNotAtAll(t *testing.T) {
	a := startAgent(t)
	keys, err := a.put(`{"name": "b", "text": "1"}`)
	if diff := cmp.Diff([]string{"b"}, keys); diff != "" || err != nil {
		t.Error(diff, err)
	}
	keys, err = a.put(` [{"name": "a"}, {"name": "b", "text": "2"}]`)
	if diff := cmp.Diff([]string{"a", "b"}, keys); diff != "" || err != nil {
		t.Error(diff, err)
	}
	_, err = a.put(`[{"name": "c"}, {"name": "b", "text": "no"}]`)
	wantAPIError(t, "a rejected row", err, http.StatusBadRequest, `row 2 of 2: table notes, row "b": row was rejected: not this text`)
	_, err = a.put(`[{"name": "c"}, {"name": "d"}, {"name": "c"}]`)
	wantAPIError(t, "a row twice", err, http.StatusBadRequest, `table notes, row "c": bad row: row 3 of 3 has the key of row 1`)
	if keys, err = a.put(`[]`); len(keys) != 0 || err != nil {
		t.Error(keys, err)
	}
	a.wantNotes("a=", "b=2")
}

func TestBadWritesAreRefusedWithTheReason(t *testing.T) {
	a := startAgent(t)
	a.insert(append(fourPorts(), note{Name: "a", Text: "only"})...)
	for _, tc := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"PUT", "nets/rows", `{}`, 404, `no such table "nets"; there are: health, jobs, notes, ports`},
		{"PUT", "ports/rows", `{}`, 403, `table ports: cannot be written by name: only the program itself writes it`},
		{"PUT", "ports/rows", `[]`, 403, `cannot be written by name`},
		{"DELETE", "ports/rows?key=eth0+22", ``, 403, `cannot be written by name`},
		{"PUT", "notes/rows", `{"name": 7}`, 400, `table notes: bad row: field "name": expected string, got number`},
		{"PUT", "notes/rows", `{"nam": "a"}`, 400, `unknown field "nam"; there are: name, text`},
		{"PUT", "notes/rows", `{"name": "a"} {"name": "b"}`, 400, `invalid character '{' after top-level value`},
		{"PUT", "notes/rows", `[{"name": "a"}`, 400, `line 1, column 14: unexpected end of JSON input`},
		{"PUT", "notes/rows", `[{"name": "a"}, 7]`, 400, `row 2 of 2: table notes: bad row: expected an object, got number`},
		{"PUT", "notes/rows", `[[{"name": "a"}]]`, 400, `expected an object, got an array`},
		{"PUT", "notes/rows", `{"name": NaN}`, 400, `invalid character 'N'`},
		{"PUT", "notes/rows", "\xff\xfe", 400, `not UTF-8`},
		{"PUT", "notes/rows", ``, 400, `expected a row as JSON, got nothing`},
		{"PUT", "notes/rows", strings.Repeat("[", 100_000), 400, `bad row`},
		{"PUT", "notes/rows", `{"name": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 400, `field "name": expected string, got array`},
		{"PUT", "notes/rows", `{"name": "` + strings.Repeat("x", 1<<20) + `"}`, 413, `rows are more than 1048576 bytes`},
		{"PUT", "notes/rows", `{"name": "b", "text": "only"}`, 409, `rows "a" and "b" share the key "only"`},
		{"PUT", "notes/rows", `{"name": "b", "text": "panic"}`, 500, `its log says how`},
		{"PUT", "notes/rows?key=a", `{}`, 400, `unknown parameter "key"; there are: revision`},
		{"PUT", "notes/rows?revision=x", `{}`, 400, `parameter "revision" is "x", expected the revision of a row`},
		{"PUT", "notes/rows?revision=1", `[]`, 400, `the parameter "revision" can be used with one row only, got 0`},
		{"PUT", "notes/rows?revision=0", `{"name": "a"}`, 409, `table notes, row "a": row was changed since`},
		{"PUT", "notes/rows?revision=1", `{"name": "b"}`, 404, `without the parameter "revision" it would be inserted`},
		{"PUT", "notes", `{}`, 404, `there is no PUT /v1/tables/notes; there are: `},
		{"DELETE", "notes/rows", ``, 400, `expected the parameter "key"`},
		{"DELETE", "notes/rows?key=b", ``, 404, `table notes, row "b": no such row; it has 1 row: a`},
		{"DELETE", "notes/rows?key=a&revision=0", ``, 409, `row was changed since`},
		{"DELETE", "notes/rows?key=%zz", ``, 400, `invalid URL escape`},
		{"DELETE", "notes", ``, 404, `there is no DELETE /v1/tables/notes`},
	} {
		what := tc.method + " " + tc.target + " " + tc.body[:min(len(tc.body), 60)]
		path, query, _ := strings.Cut(tc.target, "?")
		status, text := a.raw(tc.method, "/v1/tables/"+path, query, tc.body)
		if status != tc.status || !strings.Contains(text, tc.want) {
			t.Errorf("%s\ngives %d %s\nwant  %d %s", what, status, text, tc.status, tc.want)
		}
	}
	a.wantNotes("a=only")
}

func TestARevisionGuardsAWrite(t *testing.T) {
	a := startAgent(t)
	a.insert(note{Name: "a"}, note{Name: "b"})
	at := func(revision string, more ...string) url.Values {
		q := url.Values{"revision": {revision}}
		if len(more) > 0 {
			q.Set("key", more[0])
		}
		return q
	}
	const path = "/v1/tables/notes/rows"
	if _, err := a.send(http.MethodPut, path, at("1"), `{"name": "a", "text": "1"}`); err != nil {
		t.Error(err)
	}
	_, err := a.send(http.MethodPut, path, at("1"), `[{"name": "a", "text": "2"}]`)
	wantAPIError(t, "put", err, http.StatusConflict, "row was changed since")
	_, err = a.send(http.MethodDelete, path, at("2", "a"), "")
	wantAPIError(t, "delete", err, http.StatusConflict, "row was changed since")
	if _, err = a.send(http.MethodDelete, path, at("2", "b"), ""); err != nil {
		t.Error(err)
	}
	a.wantNotes("a=1")
}

func TestOddKeysAreWrittenAndDeleted(t *testing.T) {
	a := startAgent(t)
	for key, text := range map[string]string{
		"a/b/../c": `a/b/../c`, "100%": `100%`, "%2F": `%2F`, "\x00\x00a": `\u0000\u0000a`, "übung ☃": `übung ☃`, "": ``, "..": `..`,
		"?key=x&y#z": `?key=x&y#z`, "a+b": `a+b`, "\n": `\n`, "\U0001F41D": `\ud83d\udc1d`,
	} {
		if keys, err := a.put(`{"name": "` + text + `"}`); err != nil || len(keys) != 1 || keys[0] != key {
			t.Errorf("%q: wrote %q, %v", key, keys, err)
		}
		if row, _, ok := a.notes.Get(a.db.ReadTxn(), a.notes.KeyQuery(note{Name: key})); !ok {
			t.Errorf("%q: is not there: %v", key, row)
		}
		keys, err := a.send(http.MethodDelete, "/v1/tables/notes/rows", url.Values{"key": {key}}, "")
		if err != nil || len(keys) != 1 || keys[0] != key {
			t.Errorf("%q: deleted %q, %v", key, keys, err)
		}
	}
	a.wantNotes()
}

func TestAWriteWaitsForAnotherAndSeesIt(t *testing.T) {
	a := startAgent(t)
	txn, err := a.db.WriteTxn(t.Context(), a.notes)
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Abort()
	if _, _, err := a.notes.Insert(txn, note{Name: "a", Text: "theirs"}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.send(http.MethodPut, "/v1/tables/notes/rows", url.Values{"revision": {"1"}}, `{"name": "a", "text": "ours"}`)
		done <- err
	}()
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	a.wantNotes("a=ours")
}

func TestPutAndDeleteCommands(t *testing.T) {
	a := startAgent(t)
	file := filepath.Join(t.TempDir(), "notes.json")
	if err := os.WriteFile(file, []byte(`[{"name": "a b", "text": "1"}, {"name": "c"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ args, stdin, want string }{
		{"put notes -f " + file, "", "KEY  REVISION  RESULT\na b  1         written\nc    2         written\n"},
		{"put notes", `{"name": "d"}`, "KEY  REVISION  RESULT\nd    3         written\n"},
		{"put notes -f - --revision 2", `{"name": "c", "text": "2"}`, "KEY  REVISION  RESULT\nc    4         written\n"},
		{"delete notes a b", "", "KEY  REVISION  RESULT\na b  1         deleted\n"},
		{"delete notes d --revision 3", "", "KEY  REVISION  RESULT\nd    3         deleted\n"},
	} {
		out, errs, code := a.runWith(step.stdin, strings.Fields(step.args)...)
		if out != step.want || errs != "" || code != 0 {
			t.Errorf("%s: code %d, stderr %q, stdout:\n%s", step.args, code, errs, out)
		}
	}
	a.wantNotes("c=2")
}

func TestPutAndDeleteCommandsFailWithTheReason(t *testing.T) {
	a := startAgent(t)
	a.insert(append(fourPorts(), note{Name: "a"})...)
	a.update(func(txn *statedb.WriteTxn) error {
		_, err := a.ports.RegisterSource(txn, "documents")
		return err
	})
	for _, step := range []struct{ args, stdin, want string }{
		{"put", "", `expected the name of a table; 'testhive tables' lists them`},
		{"put nets", "{}", `no such table "nets"; there are: health, jobs, notes, ports`},
		{"put ../x", "{}", `no such table "../x"; there are: health, jobs, notes, ports`},
		{"put ports", "{}", `table ports: cannot be written by name: its rows come from documents`},
		{"put notes -f /nonexistent/x", "", `open /nonexistent/x: no such file or directory`},
		{"put notes", strings.Repeat(" ", 1<<20+1), `rows are more than 1048576 bytes, which is the most that one request may have`},
		{"put notes", `{"nam": 1}`, `table notes: bad row: unknown field "nam"; there are: name, text`},
		{"delete notes", "", `expected the key of a row; 'testhive get notes' lists them`},
		{"delete notes b", "", `table notes, row "b": no such row; it has 1 row: a`},
		{"delete notes a --revision 0", "", `table notes, row "a": row was changed since`},
	} {
		out, errs, code := a.runWith(step.stdin, strings.Fields(step.args)...)
		if want := "testhive: " + step.want + "\n"; errs != want || out != "" || code != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr:\n%swant:\n%s", step.args, code, out, errs, want)
		}
	}
	a.wantNotes("a=")
}
