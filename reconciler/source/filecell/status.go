package filecell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

const path = "/v1/documents"

// endpoint answers with the rows of the table of files.
func endpoint(db *statedb.DB, table statedb.Table[file.Document]) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		files := []file.Document{}
		for d := range table.All(db.ReadTxn()) {
			files = append(files, d)
		}
		inspect.WriteJSON(w, files)
	}))
}

// section is what the status command shows of the files: a line if all is well,
// else all that is wrong with them.
func section() cli.StatusSectionOut {
	return cli.NewStatusSection(cli.StatusSection{Name: "documents", Order: 20, Show: show})
}

func show(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error) {
	var files []file.Document
	if err := c.Get(ctx, path, nil, &files); err != nil {
		return false, err
	}
	message, refused := assess(files)
	var text strings.Builder
	fmt.Fprintf(&text, "documents: %s\n", message)
	for _, d := range files {
		if d.State == file.OK {
			continue
		}
		for line := range strings.SplitSeq(d.Error, "\n") {
			fmt.Fprintf(&text, "  %s\n", line)
		}
		if d.Rows > 0 {
			fmt.Fprintf(&text, "  %s: the last good version stays in force, with %s\n", d.File, count(d.Rows, "row"))
		}
	}
	_, err = io.WriteString(w, text.String())
	return refused == nil && err == nil, err
}

// assess sums up the files. The error, if any, is the first thing that is wrong.
func assess(files []file.Document) (message string, err error) {
	var n tally
	for _, d := range files {
		n.add(d)
		if d.State != file.OK && err == nil {
			first, _, _ := strings.Cut(d.Error, "\n")
			err = errors.New(first)
		}
	}
	return n.String(), err
}

// tally counts files.
type tally struct {
	files, rows, refused int
	lost                 bool // the directory itself is not taken over
}

func (n *tally) add(d file.Document) {
	n.rows += d.Rows
	if !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(d.File)) {
		n.lost = true // only the directory has another name
		return
	}
	n.files++
	if d.State != file.OK {
		n.refused++
	}
}

func (n *tally) String() string {
	switch {
	case n.lost:
		return fmt.Sprintf("the directory cannot be taken as it is, %s in force", count(n.rows, "row"))
	case n.refused > 0:
		return fmt.Sprintf("%d of %s refused", n.refused, count(n.files, "file"))
	}
	return fmt.Sprintf("OK, %s with %s", count(n.files, "file"), count(n.rows, "row"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
