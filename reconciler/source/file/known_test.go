package file

import (
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// contentsOf is what files say to somebody who sees them for the first time.
func (h *harness) contentsOf(files []File) Contents {
	h.t.Helper()
	contents, err := Read(h.kinds(h.t), files)
	h.must(err)
	return contents
}

func (h *harness) wantRead(files []File) {
	h.t.Helper()
	if diff := cmp.Diff(h.contentsOf(files), h.source.Read(files), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		h.t.Errorf("contents (-read for the first time +read by the source):\n%s", diff)
	}
}

func TestASourceReadsWhatItKnowsAsIfItDidNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, readable)
		h.settle()
		files, err := Load(h.dir)
		h.must(err)
		h.wantRead(files)
		elsewhere := make([]File, len(files))
		for i, f := range files {
			elsewhere[i] = File{Path: filepath.Join("elsewhere", filepath.Base(f.Path)), Data: f.Data}
		}
		h.wantRead(elsewhere)
		h.wantRead(append(elsewhere, files...)) // each key twice
		h.wantRead([]File{files[0], files[0]})
		h.wantRead(append(elsewhere, File{Path: "unread.yaml", Unread: "it is being written"}))
	})
}

func TestASourceDoesNotParseAgainWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const known, changed = "kind: route\ndestination: 10.0.0.0/8\n", "kind: route\ndestination: 10.1.0.0/16\n"
		h := newHarness(t, map[string]string{"a.yaml": known})
		asked := 0
		h.must(SetFilter(h.source, "route", func(route) bool { asked++; return true }))
		h.settle()
		for _, c := range []struct {
			data string
			want int
		}{{known, 0}, {changed, 1}, {known, 0}} {
			asked = 0
			if rows := h.source.Read([]File{{Path: "b.yaml", Data: []byte(c.data)}}).Rows; len(rows) != 1 || rows[0].Origin != "b.yaml:2:14" || asked != c.want {
				t.Errorf("%q: rows %v, %d documents parsed, expected %d", c.data, rows, asked, c.want)
			}
		}
		h.must(SetFilter(h.source, "route", func(route) bool { return false }))
		if contents := h.source.Read([]File{{Path: "b.yaml", Data: []byte(known)}}); len(contents.Rows) != 0 || contents.Documents != 1 {
			t.Errorf("with a filter that the files were not evaluated by yet: %+v", contents)
		}
	})
}

func TestASourceForgetsWhatFilesSaidThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, map[string]string{"a.yaml": routeTo("10.0.0.0/8", "eth0"), "b.yaml": routeTo("10.1.0.0/16", "eth0")})
		h.settle()
		h.remove("b.yaml")
		h.settle()
		if known := h.source.known.Load(); len(*known) != 1 {
			t.Errorf("%d contents are known, of 1 file", len(*known))
		}
	})
}
