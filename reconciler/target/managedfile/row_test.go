package managedfile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestWrongFieldsAreNamed(t *testing.T) {
	row := func(change func(*File)) File { return file("/etc/motd", "x", change) }
	path := func(path string) File { return row(func(f *File) { f.Path = path }) }
	for _, c := range []struct {
		row         File
		field, text string
	}{
		{path(""), "path", "it is missing, expected an absolute path, as /etc/motd"},
		{path("motd"), "path", `"motd" is relative`},
		{path("/"), "path", `"/" is a directory`},
		{path("/etc/"), "path", `"/etc/" is a directory`},
		{path("/etc//motd"), "path", `"/etc//motd" is not clean, expected "/etc/motd"`},
		{path("/etc/../motd"), "path", `is not clean, expected "/motd"`},
		{path("/etc/\n"), "path", `"/etc/\n" has control characters`},
		{path("/etc/\x00"), "path", "has control characters"},
		{path("/etc/\xff"), "path", "is not UTF-8"},
		{path("/" + strings.Repeat("x", 256)), "path", "has a part of 256 bytes, expected at most 255"},
		{path(strings.Repeat("/x", 2048)), "path", "it has 4096 bytes, expected at most 4095"},
		{path("/etc/" + temporaryPrefix + "1"), "path", "is a name of a file that is being written by this program"},
		{path("/proc/sys/kernel/hostname"), "path", "is in /proc"},
		{path("/sys/x"), "path", "is in /sys"},
		{path("/dev/shm/x"), "path", "is in /dev"},
		{File{Path: "/a"}, "content", "it is missing, and so is template"},
		{row(func(f *File) { f.Template = text("x") }), "content", "it is given, and template as well"},
		{row(func(f *File) { f.Content = text(strings.Repeat("x", MaxSize+1)) }), "content", "it has 1048577 bytes, expected at most 1048576"},
		{row(func(f *File) { f.Content, f.Template = nil, text("{{") }), "template", "line 1: unclosed action"},
		{row(withMode(0o10000)), "mode", "010000 is out of range, expected at most 7777"},
		{row(func(f *File) { f.Owner = "a b" }), "owner", `"a b" is neither a name nor a number`},
		{row(func(f *File) { f.Mode, f.Owner = 0o2555, "games" }), "mode", "2555 has the set-group-ID bit, and the owner is games: expected root"},
		{row(func(f *File) { f.Owner = "4294967295" }), "owner", "4294967295 is out of range, expected at most 4294967294"},
		{row(func(f *File) { f.Group = "99999999999" }), "group", "out of range"},
		{row(func(f *File) { f.Group = "a:b" }), "group", "neither a name nor a number"},
		{row(func(f *File) { f.OnDelete = "explode" }), "onDelete", `"explode" is unknown, expected remove, restore or keep`},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.100q: error %.300v, expected one about %s: %s", c.row.Path, err, c.field, c.text)
		}
		var key Key
		if err := key.UnmarshalText([]byte(c.row.Path)); (err != nil) != (c.field == "path") {
			t.Errorf("key %.100q: error %v", c.row.Path, err)
		}
	}
	for _, good := range []string{"/motd", "/etc/a b", "/processes", "/developer/x", "/etc/ü", "/..."} {
		if _, err := path(good).Normalized(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestModesAreFourOctalDigits(t *testing.T) {
	for text, want := range map[string]Mode{"0644": 0o644, "1777": 0o1777, "0000": 0, "7777": 0o7777} {
		var row struct{ Mode Mode }
		for _, document := range []string{"mode: " + text, `mode: "` + text + `"`} {
			if err := yaml.Unmarshal([]byte(document), &row); err != nil || row.Mode != want {
				t.Errorf("%s: %v, %v", document, row.Mode, err)
			}
		}
		if got := row.Mode.String(); got != text {
			t.Errorf("text %q, expected %q", got, text)
		}
	}
	for _, text := range []string{"644", "0o644", "420", "00644", "0888", "rw-r--r--", "", "-644"} {
		var mode Mode
		if err := mode.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "expected four octal digits, as 0644") {
			t.Errorf("%q is mode %v, %v", text, mode, err)
		}
	}
}

func TestRowsAreComparedByWhatTheySay(t *testing.T) {
	a, b := file("/a", "x"), file("/a", "x")
	if !a.Equal(b) {
		t.Error("two rows that say the same differ")
	}
	for name, change := range map[string]func(*File){
		"content":  func(f *File) { f.Content = text("y") },
		"none":     func(f *File) { f.Content = nil },
		"template": func(f *File) { f.Template = text("x") },
		"mode":     withMode(0o600),
		"adopt":    adopted,
		"onDelete": kept,
		"owner":    func(f *File) { f.Owner = "root" },
	} {
		if other := file("/a", "x", change); a.Equal(other) || other.Equal(a) {
			t.Errorf("rows of another %s are the same", name)
		}
	}
}

func TestSchemasMakeTables(t *testing.T) {
	db := statedb.New()
	if _, err := statedb.NewTable(db, Schema()); err != nil {
		t.Fatal(err)
	}
	if _, err := statedb.NewTable(db, SeenSchema()); err != nil {
		t.Fatal(err)
	}
	if _, err := Default().Normalized(); err == nil {
		t.Error("an empty document is accepted")
	}
	written, err := json.Marshal(file("/a", ""))
	if want := `{"path":"/a","content":"","mode":"0644","onDelete":"remove",`; err != nil || !strings.HasPrefix(string(written), want) {
		t.Errorf("JSON %s, %v", written, err)
	}
	var read File
	if err := json.Unmarshal(written, &read); err != nil || !read.Equal(file("/a", "")) {
		t.Errorf("%+v, %v", read, err)
	}
}
