package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/statehive/statehive/cmd/statehive/internal/sandbox"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
)

func TestDocumentsCannotWriteWhatTheAgentReads(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"documents", "state", "elsewhere"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("documents", at("link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	s := &surroundings{own: []ownPath{
		{"in the directory of documents", "documents"}, {"in the state directory", at("state")}, {"the settings file", "settings.yaml"}, {"nothing", ""},
	}}
	for path, want := range map[string]string{
		at("elsewhere/a"):         "",
		at("documents"):           "in the directory of documents (documents), where documents cannot write",
		at("documents/sub/a"):     "in the directory of documents (documents), where documents cannot write",
		at("link/a"):              "in the directory of documents (documents), where documents cannot write",
		at("state/file/x.json"):   "in the state directory (" + at("state") + "), where documents cannot write",
		at("settings.yaml"):       "the settings file (settings.yaml), where documents cannot write",
		at("settings.yaml.other"): "",
		at("documents-2"):         "",
	} {
		if want != "" {
			want = path + " is " + want
		}
		got := s.allowFile(path)
		if got == nil && want == "" {
			continue
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, expected %q", path, got, want)
		}
	}
}

func TestInTheSandboxFilesCanBeWrittenInMemoryOnly(t *testing.T) {
	s := &surroundings{sandboxed: true, prepared: sandbox.Prepared{StateDir: "/tmp/s"}}
	for path, allowed := range map[string]bool{
		"/tmp/s/files/a": true, "/tmp/s/files": false, "/tmp/s/file/a.json": false, "/etc/motd": false, "/tmp/s/files-2/a": false,
	} {
		if err := s.allowFile(path); (err == nil) != allowed {
			t.Errorf("%s: %v, expected it to be allowed: %v", path, err, allowed)
		}
	}
}

// What is not there cannot be compared by what it is, but what it would be in can.
func TestDocumentsCannotMakeWhatTheAgentReads(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	around := surroundings{own: []ownPath{{what: "the directory of documents", path: filepath.Join(dir, "link", "a", "documents")}}}
	for path, allowed := range map[string]bool{
		"link/a/documents/x.yaml":   false,
		"real/a/documents/x.yaml":   false,
		"real/a/documents":          false,
		"real/a/documents/b/x.yaml": false,
		"real/a/x.yaml":             true,
		"real/documents/x.yaml":     true,
		"other/a/documents/x.yaml":  true,
		"real/a/documents2":         true,
	} {
		if err := around.allowFile(filepath.Join(dir, path)); (err == nil) != allowed {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file in the place of the socket's lock would keep the agent from starting again.
func TestDocumentsCannotWriteTheSocketOrItsLock(t *testing.T) {
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "api.sock")} {
		s := &surroundings{own: ownPaths([]cell.Setting{{Name: "socket", Value: socket}})}
		if socket == "" {
			socket = inspect.DefaultSocket(name)
		}
		for path, refused := range map[string]bool{socket: true, socket + ".lock": true, socket + ".other": false} {
			if err := s.allowFile(path); (err != nil) != refused {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
