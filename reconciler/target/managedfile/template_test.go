package managedfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// host is a row that templates read.
type host struct {
	Name  string   `json:"name"`
	Port  uint64   `json:"port"`
	Load  float64  `json:"load"`
	Tags  []string `json:"tags,omitempty"`
	Extra string   `json:"extra,omitempty"`
}

var hostByName = statedb.NewIndex("name", func(h host) string { return h.Name })

// bed is a database with a table of hosts, and a target that reads it.
type bed struct {
	t      *testing.T
	db     *statedb.DB
	hosts  *statedb.RWTable[host]
	target *Target
}

func newBed(t *testing.T) *bed {
	t.Helper()
	db := statedb.New()
	hosts, err := statedb.NewTable(db, statedb.Schema[host]{Name: "hosts", Primary: hostByName})
	must(t, err)
	b := &bed{t, db, hosts, newTarget(t, Config{DB: db}, t.TempDir())}
	b.put(host{"b", 4294967296, 0.5, []string{"x", "y"}, ""}, host{"a", 80, 1, nil, "more"})
	return b
}

func (b *bed) put(rows ...host) {
	b.t.Helper()
	must(b.t, b.db.Update(b.t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := b.hosts.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, b.hosts))
}

func (b *bed) render(text string) (string, error) {
	r, content := b.target.render(b.t.Context(), b.db.ReadTxn(), text)
	return content, r.err
}

func TestTemplates(t *testing.T) {
	b := newBed(t)
	name, err := os.Hostname()
	must(t, err)
	for template, want := range map[string]string{
		"plain":        "plain",
		"":             "",
		"{{hostname}}": name,
		`{{range rows "hosts"}}{{.name}}:{{.port}} {{.load}}
{{end}}`: "a:80 1\nb:4294967296 0.5\n",
		`{{with row "hosts" "a"}}{{.port}}{{end}}`:                                              "80",
		`{{with row "hosts" "z"}}{{.port}}{{else}}none{{end}}`:                                  "none",
		`{{range rows "hosts"}}{{with index . "tags"}}{{join . ","}}{{end}}{{end}}`:             "x,y",
		`{{range rows "hosts"}}{{if eq .port 80}}{{.name}}{{end}}{{end}}`:                       "a",
		`{{len (rows "hosts")}}`:                                                                "2",
		`{{define "host"}}<{{.name}}>{{end}}{{range rows "hosts"}}{{template "host" .}}{{end}}`: "<a><b>",
		"{{indent 2 \"a\\n\\nb\"}}":                                                             "  a\n\n  b",
		`[{{trim "  x \n"}}]`:                                                                   "[x]",
		`{{printf "%-5s|%05d|%.2f" "a" 7 1.5}}`:                                                 "a    |00007|1.50",
		`{{print 1 2}} {{println "a"}}{{html "<"}} {{js "'"}} {{urlquery "a b"}}`:               "1 2 a\n&lt; \\' a+b",
		`{{range 3}}{{.}}{{end}}{{range $i, $e := rows "hosts"}}{{$i}}{{end}}`:                  "01201",
	} {
		if got, err := b.render(template); err != nil || got != want {
			t.Errorf("%s\nmakes %q, %v\nexpected %q", template, got, err, want)
		}
	}
}

func TestTemplatesThatAreWrongSayWhere(t *testing.T) {
	for template, want := range map[string]string{
		"a\n{{":                    "line 2: unclosed action",
		"a\n\n{{nothing}}":         `line 3: function "nothing" not defined`,
		"{{range rows}}":           "line 1: unexpected EOF",
		"{{end}}":                  "line 1: unexpected {{end}}",
		"x\n{{template \"none\"}}": `line 2: template "none" is not defined`,
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:                                                                                `line 1: template "a" calls itself`,
		`{{define "a"}}{{if 1}}{{else}}{{with 1}}{{template "b"}}{{end}}{{end}}{{end}}{{define "b"}}{{range 1}}{{template "a"}}{{end}}{{end}}`: `calls itself`,
		"{{template \"template\"}}":    `line 1: template "template" calls itself`,
		strings.Repeat("x", MaxSize+1): "it has 1048577 bytes, expected at most 1048576",
	} {
		row := Default()
		row.Path, row.Template = "/a", text(template)
		_, err := row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != "template" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: error %v, expected %s", template, err, want)
		}
	}
}

func TestErrorsOfRenderingNameTheLine(t *testing.T) {
	b := newBed(t)
	for template, want := range map[string]string{
		"a\n{{range rows \"hosts\"}}\n{{.nothing}}{{end}}": `template: line 3: at <.nothing>: map has no entry for key "nothing"`,
		`{{(row "hosts" "z").port}}`:                       `map has no entry for key "port"`,
		`{{rows "hots"}}`:                                  `table "hots"`,
		`{{rows "files"}}`:                                 `table "files" cannot be read: it changes with what is made of it`,
		`{{row "observed-files" "/a"}}`:                    `table "observed-files" cannot be read`,
		`{{rows 1}}`:                                       `expected string`,
		`{{.x}}`:                                           `template: line 1:`,
		`{{printf "%*d" 7 1}}`:                             `"%*" in a format: the numbers of arguments, and widths that are arguments, are not supported`,
		`{{printf "%[1]s%[1]s" "x"}}`:                      `"%[1]" in a format`,
		`{{printf "%1000d" 1}}`:                            `"%1000" in a format is wider than 999`,
		`{{indent 1000 "x"}}`:                              `1000 spaces are out of range, expected 0 to 999`,
		`{{index (rows "hosts") 7}}`:                       `index out of range: 7`,
	} {
		if got, err := b.render(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nmakes %q, error %v\nexpected %s", template, got, err, want)
		}
	}
	without := newTarget(t, Config{}, t.TempDir())
	if r, _ := without.render(t.Context(), b.db.ReadTxn(), `{{rows "hosts"}}`); r.err == nil || !strings.Contains(r.err.Error(), "there is no database") {
		t.Errorf("without a database: %v", r.err)
	}
}

// No template of little text makes much, of memory or of work.
func TestTemplatesAreBounded(t *testing.T) {
	b := newBed(t)
	double := func(function string) string {
		return `{{$x := "0123456789"}}{{range 60}}{{$x = ` + function + `}}{{end}}`
	}
	for template, want := range map[string]string{
		`{{range 100000000}}0123456789{{end}}`:             "it makes more than 1048576 bytes",
		double(`printf "%s%s" $x $x`):                      "it makes more than 1048576 bytes",
		double(`print $x $x`):                              "it makes more than 1048576 bytes",
		double(`println $x $x`):                            "it makes more than 1048576 bytes",
		double(`html $x $x`):                               "it makes more than 1048576 bytes",
		double(`urlquery $x $x`):                           "it makes more than 1048576 bytes",
		`{{$x := "\\"}}{{range 60}}{{$x = js $x}}{{end}}`:  "it makes more than 1048576 bytes",
		`{{range 2000}}{{indent 999 "x"}}{{end}}`:          "it makes more than 1048576 bytes",
		`{{range 1000000000000}}{{end}}`:                   "it takes too long",
		`{{range 1000000}}{{range 1000000}}{{end}}{{end}}`: "it takes too long",
		doubling(40): "it takes too long",
		`{{printf "` + strings.Repeat("x", 5000) + `"}}`: "the format has 5000 bytes, expected at most 4096",
	} {
		// Time goes by with each look at it.
		now := time.Now()
		b.target.now = func() time.Time {
			now = now.Add(10 * time.Microsecond)
			return now
		}
		if got, err := b.render(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s\nmakes %d bytes, error %v\nexpected %s", template, len(got), err, want)
		}
	}
}

func TestTemplatesWithoutLoopsMayNotTakeLongEither(t *testing.T) {
	b := newBed(t)
	now := time.Now()
	b.target.now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	if got, err := b.render(strings.Repeat(`{{$x := html "<"}}`, 10)); err == nil || !strings.Contains(err.Error(), "it takes too long") {
		t.Errorf("made %q, error %v", got, err)
	}
}

// doubling is a template that calls another one twice, which does the same, and so on.
func doubling(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `{{define "t%d"}}{{template "t%d"}}{{template "t%d"}}{{end}}`, i, i+1, i+1)
	}
	fmt.Fprintf(&all, `{{define "t%d"}}{{end}}{{template "t0"}}`, n)
	return all.String()
}

func TestATemplateWaitsForTablesThatHaveNotAllTheirRows(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(t.TempDir(), "a")
	row := Default()
	row.Path, row.Template = path, text(`{{range rows "hosts"}}{{.name}}{{end}}`)
	update := func(want string) {
		t.Helper()
		_, err := b.target.Update(t.Context(), b.db.ReadTxn(), row)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Update: %v, expected %q", err, want)
		}
	}
	var source *statedb.Source
	change := func(fn func(txn *statedb.WriteTxn) error) {
		t.Helper()
		must(t, b.db.Update(t.Context(), fn, b.hosts))
	}
	change(func(txn *statedb.WriteTxn) (err error) {
		source, err = b.hosts.RegisterSource(txn, "discovery")
		return err
	})
	update(`table "hosts" is not complete: source "discovery" has not delivered yet`)
	wantAbsent(t, path)
	change(func(txn *statedb.WriteTxn) error { return source.Initialized(txn) })
	update("")
	wantFile(t, path, "ab", 0o644)
	// What comes to the same all the same is as it shall be.
	change(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "it is away") })
	update("")
	change(func(txn *statedb.WriteTxn) error {
		_, _, err := b.hosts.Delete(txn, host{Name: "b"})
		return errors.Join(err, source.Incomplete(txn, "it is away"))
	})
	update(`table "hosts" is not complete: discovery: it is away`)
	wantFile(t, path, "ab", 0o644)
	change(func(txn *statedb.WriteTxn) error { return source.Complete(txn) })
	update("")
	wantFile(t, path, "a", 0o644)
}

func TestATableIsReadOnceForManyTemplates(t *testing.T) {
	b := newBed(t)
	txn := b.db.ReadTxn()
	r := &rendering{used: map[string]statedb.Revision{}}
	first, err := b.target.tables.rows(b.db, txn, "hosts", r, t.Context().Err)
	must(t, err)
	again, err := b.target.tables.rows(b.db, txn, "hosts", r, t.Context().Err)
	must(t, err)
	if &first[0] != &again[0] {
		t.Error("it was read twice")
	}
	b.put(host{Name: "c"})
	if rows, err := b.target.tables.rows(b.db, b.db.ReadTxn(), "hosts", r, t.Context().Err); err != nil || len(rows) != 3 {
		t.Errorf("after a change: %v, %v", rows, err)
	}
}
