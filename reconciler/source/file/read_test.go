package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var readable = map[string]string{
	"a.yaml":     "kind: route\ndestination: 10.0.0.0/8\n---\nkind: set\nname: x\n",
	"b.yml":      "# nothing\n",
	"bad.yaml":   "kind: route\ndestinatoin: 10.0.0.0/8\n---\nkind: rout\n---\nkind: set\nname: [\n",
	"c.yaml":     "kind: route\ndestination: 10.1.0.0/16\nmetric: 5000\n",
	"twin.yaml":  "kind: route\ndestination: 10.2.0.0/16\n",
	"twin2.yaml": "kind: set\nname: y\n---\nkind: route\ndestination: 10.2.0.0/16\n",
	"self.yaml":  "kind: set\nname: z\n---\nkind: set\nname: z\n",
	"bin.yaml":   "kind: \x01\n",
	".hid.yaml":  "nonsense",
	"notes.txt":  "nonsense",
}

// What is read once is judged as a source judges what it sees for the first time.
func TestReadAgreesWithASourceThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, readable)
		h.must(os.Symlink("nowhere", h.path("dangling.yaml")))
		h.settle()
		files, err := Load(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		contents, err := Read(h.kinds(t), files)
		if err != nil {
			t.Fatal(err)
		}
		documents, shown := 0, map[string]string{}
		for d := range h.source.Documents().All(h.db.ReadTxn()) {
			documents += d.Documents
			if d.Error != "" {
				shown[d.File] = d.Error
			}
		}
		read := map[string]string{}
		for _, p := range contents.Problems {
			read[p.File] = strings.TrimPrefix(read[p.File]+"\n"+p.String(), "\n")
		}
		if diff := cmp.Diff(shown, read); diff != "" || len(read) != 7 {
			t.Errorf("problems of %d files (-source +read):\n%s", len(read), diff)
		}
		if contents.Documents != documents || contents.Files != len(files) || len(files) != 9 {
			t.Errorf("%d documents in %d of %d files, the source has %d in 9", contents.Documents, contents.Files, len(files), documents)
		}
		var rows []string
		for _, r := range contents.Rows {
			rows = append(rows, r.Kind+" "+r.Key+" "+strings.TrimPrefix(r.Origin, h.dir+"/"))
		}
		if diff := cmp.Diff([]string{"route 10.0.0.0/8 a.yaml:2:14", "set x a.yaml:4:1"}, rows); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func TestFilesAreLoadedOnceEachByWhateverPath(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, data := range map[string]string{"a.yaml": "a", "b.yaml": "b", "other": "c"} {
		if err := os.WriteFile(path(name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := os.OpenFile(path("b.yaml"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	files, err := Load(path("other"), dir+"/", path("./a.yaml"))
	want := []File{{Path: path("other"), Data: []byte("c")}, {Path: path("a.yaml"), Data: []byte("a")}, {Path: path("b.yaml"), Unread: "it is being written"}}
	if diff := cmp.Diff(want, files); err != nil || diff != "" {
		t.Errorf("files (-want +got), %v:\n%s", err, diff)
	}
	if _, err := Load(dir, path("none")); !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), path("none")) {
		t.Errorf("a path that is not there: %v", err)
	}
}
