package filecell

import (
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/source/file"
)

// A file that somebody keeps open keeps its changes from being in force.
func TestAFileThatIsWrittenForLongIsAProblem(t *testing.T) {
	now := time.Now()
	files := []file.Document{
		{File: "/d/a.yaml", State: file.OK, Rows: 1, Since: now.Add(-time.Hour)},
		{File: "/d/b.yaml", State: file.Writing, Since: now.Add(-10 * time.Second)},
		{File: "/d/c.yaml", State: file.Writing, Since: now.Add(-40 * time.Second)},
	}
	const message = "OK, 3 files with 1 row, 2 being written"
	if text, again, err := assess(files, now); text != message || err != nil || again != 20*time.Second {
		t.Errorf("%q, again after %v, %v", text, again, err)
	}
	const problem = "/d/c.yaml has been open for writing for more than a minute, and is not read before that ends"
	if text, again, err := assess(files, now.Add(20*time.Second)); text != message || err == nil || err.Error() != problem || again != 0 {
		t.Errorf("%q, again after %v, %v", text, again, err)
	}
}
