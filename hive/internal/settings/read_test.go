package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/internal/graph"
	"github.com/statehive/statehive/hive/internal/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t *testing.T, text string) ([]graph.FileEntry, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := settings.ReadFile(path)
	for i := range entries {
		entries[i].Position = filepath.Base(entries[i].Position)
	}
	return entries, err
}

func TestKeysAreReadWithTheirPlaces(t *testing.T) {
	got, err := read(t, "# settings\ndir: &dir /etc\n\nmode: 0600\non: yes\nnames: [a, *dir]\nlimits:\n  a: 1\n  b: two\nagain: *dir\nempty: ''\n")
	want := []graph.FileEntry{
		{Key: "dir", Position: "settings.yaml:2", Value: "/etc"},
		{Key: "mode", Position: "settings.yaml:4", Value: "0600"},
		{Key: "on", Position: "settings.yaml:5", Value: "yes"},
		{Key: "names", Position: "settings.yaml:6", Value: []string{"a", "/etc"}},
		{Key: "limits", Position: "settings.yaml:7", Value: map[string]string{"a": "1", "b": "two"}},
		{Key: "again", Position: "settings.yaml:10", Value: "/etc"},
		{Key: "empty", Position: "settings.yaml:11", Value: ""},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestFileOfNothingHasNoKeys(t *testing.T) {
	for _, text := range []string{"", "# only words\n", "---\n", "{}\n"} {
		if got, err := read(t, text); len(got) > 0 || err != nil {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestFaultsAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: [":               "settings.yaml",
		"- a\n":                    "settings.yaml:1: expected a map from names of flags to values",
		"a: 1\n---\nb: 1\n":        "expected one document",
		"a:\nb: 1\n":               "settings.yaml:1: a: line 1: expected a value, got nothing",
		"a: [1, [2]]\n":            "settings.yaml:1: a: line 1: expected a single value",
		"a:\n  x: 1\n  x: 2\n":     `settings.yaml:1: a: line 3: duplicate key "x"`,
		"a: 1\nb: [{c: d}]\nc: 1":  "settings.yaml:2: b: line 2: expected a single value",
		"a: {b: {c: d}}\nx: null ": "settings.yaml:2: x: line 2: expected a value",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := settings.ReadFile(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}

func TestFileThatOthersMayHaveWrittenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, err := settings.ReadFile(path); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.ReadFile(path); err == nil || !strings.Contains(err.Error(), "settings.yaml can be written to by others (mode -rw-rw-rw-): if what it holds is right, run chmod go-w") {
		t.Errorf("for all: %v", err)
	}
	if os.Getuid() != 0 {
		return // only root can give files to others
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.Chown(path, 65533, 65533)); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.ReadFile(path); err == nil || !strings.Contains(err.Error(), "settings.yaml belongs to uid 65533, who may write to it") {
		t.Errorf("of another user: %v", err)
	}
}

func TestFileThatIsCostlyToParseIsRefused(t *testing.T) {
	for _, text := range []string{"[" + strings.Repeat("1,", 500_000), strings.Repeat("a: b\n", 200_000), strings.Repeat("---\n- a\n", 100_000)} {
		_, err := read(t, text)
		if err == nil || !strings.Contains(err.Error(), "too many names and values") || len(err.Error()) > 1000 {
			t.Errorf("got the error %.2000v", err)
		}
	}
	for _, text := range []string{"a: \xff", "\xff\xfea\x00:\x00 \x00b\x00", "a: \x7f"} {
		if _, err := read(t, text); err == nil || !strings.HasSuffix(err.Error(), "expected text in UTF-8") {
			t.Errorf("%q: got the error %v", text, err)
		}
	}
	if _, err := read(t, "text: |\n"+strings.Repeat("  [a, b]: {c}\n", 50_000)); err != nil {
		t.Error(err)
	}
}

// FuzzReadFile checks that whatever a file says is refused or read as values of the three types, with little memory.
func FuzzReadFile(f *testing.F) {
	f.Add("a: b\nc: [d, 'e']\nf: {g: h}\n")
	f.Add("a: &x {b: *x}\n---\nc: d\n")
	f.Add("? [a]\n: |\n  b\n...\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := read(t, strings.Repeat(text, 100))
		for _, e := range entries {
			switch e.Value.(type) {
			case string, []string, map[string]string:
			default:
				if e.Value != nil || err == nil {
					t.Errorf("key %q has the value %#v, and the error is %v", e.Key, e.Value, err)
				}
			}
		}
	})
}
