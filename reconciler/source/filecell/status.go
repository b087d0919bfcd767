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
	"time"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/internal/trusted"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

const path = "/v1/documents"

// endpoint answers with the rows of the table of files.
func endpoint(db *statedb.DB, table *statedb.Table[file.Document]) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		files := []file.Document{}
		for d := range table.All(db.ReadTxn()) {
			files = append(files, d)
		}
		inspect.WriteJSON(w, files)
	}))
}

// section returns the section of the status command about the files: one line if all
// files are valid, or else all their problems.
func section() cli.StatusSectionOut {
	return cli.NewStatusSection(cli.StatusSection{Name: "documents", Order: 20, Show: show})
}

func show(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error) {
	var files []file.Document
	if err := c.Get(ctx, path, nil, &files); err != nil {
		return false, err
	}
	message, _, wrong := assess(files, time.Now())
	var text strings.Builder
	fmt.Fprintf(&text, "documents: %s\n", message)
	for _, d := range files {
		text.WriteString(details(d))
	}
	_, err = io.WriteString(w, text.String())
	return wrong == nil && err == nil, err
}

// details returns the problems of a file, one per line.
func details(d file.Document) string {
	var text strings.Builder
	switch d.State {
	case file.OK:
		return ""
	case file.Writing:
		fmt.Fprintf(&text, "  %s: is being written; it will be read when that has ended\n", trusted.Name(d.File))
	default:
		for line := range strings.SplitSeq(d.Error, "\n") {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}
	if d.Rows > 0 {
		fmt.Fprintf(&text, "  %s: the last valid version stays in force, with %s\n", trusted.Name(d.File), count(d.Rows, "row"))
	}
	return text.String()
}

// longWriting is how long a file may be open for writing before that is a problem.
const longWriting = time.Minute

// assess summarizes the files. The error, if any, is the first problem. If again is not 0, there may be one after that time.
func assess(files []file.Document, now time.Time) (message string, again time.Duration, err error) {
	var n tally
	for _, d := range files {
		n.add(d)
		if refused(d) && err == nil {
			first, _, _ := strings.Cut(d.Error, "\n")
			err = errors.New(first)
		}
	}
	if n.writing > 0 {
		if again = n.since.Add(longWriting).Sub(now); again <= 0 && err == nil {
			err = fmt.Errorf("%s has been open for writing for more than a minute, and is not read before that ends", trusted.Name(n.written))
		}
	}
	return n.String(), max(again, 0), err
}

// tally counts files.
type tally struct {
	files, rows, refused, writing int

	// The file that has been written for the longest time, and since when.
	written string
	since   time.Time

	lost bool // the directory itself is not accepted
}

func refused(d file.Document) bool { return d.State != file.OK && d.State != file.Writing }

// isDirectory reports whether a row is for the directory itself, which is the only one whose name has no extension of documents.
func isDirectory(d file.Document) bool {
	return !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(d.File))
}

func (n *tally) add(d file.Document) {
	n.rows += d.Rows
	if isDirectory(d) {
		n.lost = true
		return
	}
	n.files++
	if refused(d) {
		n.refused++
	}
	if d.State == file.Writing {
		n.writing++
		if n.since.IsZero() || d.Since.Before(n.since) {
			n.written, n.since = d.File, d.Since
		}
	}
}

func (n *tally) String() string {
	switch {
	case n.lost:
		return fmt.Sprintf("the directory is not accepted, %s in force", count(n.rows, "row"))
	case n.refused > 0:
		return fmt.Sprintf("%d of %s refused", n.refused, count(n.files, "file"))
	}
	text := fmt.Sprintf("OK, %s with %s", count(n.files, "file"), count(n.rows, "row"))
	if n.writing > 0 {
		text += fmt.Sprintf(", %d being written", n.writing)
	}
	return text
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
