package managedfile

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// manyHosts is a bed with a table of 100,000 rows, which have the text of 20 MB.
func manyHosts(t *testing.T) *bed {
	b := newBed(t)
	rows := make([]host, 100_000)
	for i := range rows {
		rows[i] = host{Name: fmt.Sprintf("host-%06d", i), Port: uint64(i), Tags: []string{"a", "b"}, Extra: strings.Repeat("x", 100)}
	}
	b.put(rows...)
	return b
}

// What prints a large table fails before the text is made.
func TestTextsOfLargeTablesAreNotMade(t *testing.T) {
	b := manyHosts(t)
	now := time.Now()
	b.target.now = func() time.Time { return now } // time is none of its concerns, and the race detector takes a lot
	if got, err := b.render(`{{len (rows "hosts")}}`); err != nil || got != "100002" {
		t.Fatalf("made %q, error %v", got, err)
	}
	for _, template := range []string{
		`{{rows "hosts"}}`,
		`{{$x := rows "hosts"}}{{if $x}}{{$x}}{{end}}`,
		`{{print (rows "hosts")}}`,
		`{{println 1 (rows "hosts")}}`,
		`{{html (rows "hosts")}}`,
		`{{js (rows "hosts")}}`,
		`{{urlquery (rows "hosts")}}`,
		`{{printf "%v" (rows "hosts")}}`,
		`{{join (rows "hosts") ""}}`,
		`{{join (rows "hosts") (printf "%999s" "")}}`,
		`{{printf "%999d" (slice (rows "hosts") 0 5000)}}`,
		`{{printf "%.999f" (slice (rows "hosts") 0 5000)}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := b.render(template)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "it makes more than 1048576 bytes") {
			t.Errorf("%s\nmakes %d bytes, error %v", template, len(got), err)
		}
		if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent > 16 {
			t.Errorf("%s\nallocates %d MiB", template, spent)
		}
	}
	for template, want := range map[string]string{
		`{{index (rows "hosts") 5}}`:                          "map[extra:" + strings.Repeat("x", 100) + " load:0 name:host-000003 port:3 tags:[a b]]",
		`{{printf "%v|%3d" (index (rows "hosts") 5).tags 7}}`: "[a b]|  7",
		`{{println 1.5 true "" "x" "y"}}`:                     "1.5 true  x y\n",
		`{{.}}`:                                               "<no value>",
		`{{print (index (rows "hosts") 5).tags nil}}`:         "[a b] <nil>",
	} {
		if got, err := b.render(template); err != nil || got != want {
			t.Errorf("%s\nmakes %.200q, %v\nexpected %q", template, got, err, want)
		}
	}
}

// Each action, and each function that may take long, looks at the time.
func TestNoFunctionOfATemplateIsCalledWhenTheTimeIsOver(t *testing.T) {
	b := manyHosts(t)
	for _, template := range []string{
		`{{rows "hosts"}}`,
		`{{$x := rows "hosts"}}`, // while the rows are read
		strings.Repeat(`{{$x := row "hosts" "a"}}`, 10),
		strings.Repeat(`{{$x := indent 1 "a"}}`, 10),
		strings.Repeat(`{{$x := trim "a"}}`, 10),
		strings.Repeat(`{{$x := eq "a" "b"}}`, 10),
		strings.Repeat(`{{if eq "a" "b"}}{{end}}`, 10),
		`{{if eq 1 2}}` + strings.Repeat(`{{else if eq "a" "b"}}`, 10) + `{{end}}`,
		strings.Repeat(`{{with eq "a" "b"}}{{end}}`, 10),
		`{{if or (trim "") (trim "") (trim "") (trim "") (trim "") (trim "")}}{{end}}`,
		`{{if or (indent 0 "") (indent 0 "") (indent 0 "") (indent 0 "") (indent 0 "")}}{{end}}`,
		`{{if or (row "hosts" "-") (row "hosts" "-") (row "hosts" "-") (row "hosts" "-")}}{{end}}`,
		`{{$x := row "hosts" "a"}}{{if or (join (index $x "tags") "") (join (index $x "tags") "")}}{{end}}`,
	} {
		now := time.Now()
		b.target.now = func() time.Time {
			now = now.Add(maxRendering / 3)
			return now
		}
		if got, err := b.render(template); err == nil || !strings.Contains(err.Error(), "it takes too long") {
			t.Errorf("%.100s\nmade %.100q, error %v", template, got, err)
		}
	}
}

// One action is small: what it compares costs time, too.
func TestALongActionIsRefused(t *testing.T) {
	for template, want := range map[string]string{
		"\n{{if eq 1 " + strings.Repeat("2 ", 10_000) + "}}{{end}}":                                  "line 2: an action of 20004 bytes, expected at most 16384",
		"{{with 1}}{{else with eq 1 " + strings.Repeat("2 ", 10_000) + "}}{{end}}":                   "an action of 20004 bytes",
		"{{define \"a\"}}{{range 3}}{{$x := \"" + strings.Repeat("y", 20_000) + "\"}}{{end}}{{end}}": "an action of 20008 bytes",
		"{{block \"a\" (print \"" + strings.Repeat("y", 20_000) + "\")}}{{end}}":                     "an action of 20010 bytes",
	} {
		_, err := parseTemplate(template)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: error %.300v, expected %s", template, err, want)
		}
	}
	if _, err := parseTemplate(strings.Repeat("{{/* "+strings.Repeat("x", 20_000)+" */}}", 10) + strings.Repeat(`{{$x := 1}}`, 5000)); err != nil {
		t.Error(err)
	}
}

// Nested actions take hundreds of times their text.
func TestATemplateHasALimitedNumberOfActions(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("{{if 1}}", n) + strings.Repeat("{{end}}", n) }
	if _, err := parseTemplate(nested(maxActions / 2)); err != nil {
		t.Errorf("error %v", err)
	}
	_, err := parseTemplate(nested(maxActions))
	if err == nil || err.Error() != "it has 20000 actions, expected at most 10000" {
		t.Errorf("error %v", err)
	}
}

// The contents of all files of a plan, each of which may be rendered from a few bytes, would be in memory at once.
func TestAPlanKeepsNoContents(t *testing.T) {
	target := openedTarget(t, t.TempDir())
	o := target.begin(nil)
	defer o.close()
	o.compares = true
	o.look(t.Context(), []File{file(filepath.Join(t.TempDir(), "a"), "new\n")}, func(_ int, s *state, err error) {
		if err != nil || s.content != "" || s.want.Hash != hashOf([]byte("new\n")) {
			t.Errorf("%q, %v", s.content, err)
		}
	})
}
