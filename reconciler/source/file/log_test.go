package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
)

// logged counts the lines of a log by message, and what they say was left out.
func logged(log string) (lines, left map[string]int) {
	lines, left = map[string]int{}, map[string]int{}
	line := regexp.MustCompile(`msg="([^"]*)"(?: leftOut=(\d+))?`)
	for _, m := range line.FindAllStringSubmatch(log, -1) {
		lines[m[1]]++
		n, _ := strconv.Atoi(m[2]) // empty: none
		left[m[1]] += n
	}
	return lines, left
}

// Thousands of refused documents, and files that are good again, write no more than 100 lines a minute each. What is left out
// is counted.
func TestRefusedDocumentsDoNotFillTheLog(t *testing.T) {
	const files, perFile = 2_000, 10
	f, dir, log := newFixture(t), t.TempDir(), &strings.Builder{}
	writeAll := func(data string) {
		for i := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.yaml", i)), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeAll(strings.Repeat(badField+"---\n", perFile))
	began := time.Now()
	source, err := New(Config{DB: f.db, Dir: dir, Kinds: f.kinds(t), Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	wait := func(state State) {
		t.Helper()
		for late := time.After(3 * deadline); ; {
			rows, changed := source.Documents().AllWatch(f.db.ReadTxn())
			n := 0
			for d := range rows {
				if d.State == state {
					n++
				}
			}
			if n == files {
				return
			}
			select {
			case <-changed:
			case <-late:
				t.Fatalf("%d of %d files are in state %s", n, files, state)
			}
		}
	}
	wait(Error)
	writeAll("# nothing any more\n")
	wait(OK)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	lines, left := logged(log.String())
	windows := 1 + int(time.Since(began)/loglimit.Window)
	for message, n := range lines {
		if n > windows*(loglimit.Passed+1) {
			t.Errorf("%d lines of %q in %v", n, message, time.Since(began))
		}
	}
	for message, want := range map[string]int{"Document refused": files * perFile, "Documents are valid again": files} {
		if got := lines[message] + left[message]; got < want || got > want+windows {
			t.Errorf("%d lines of %q, with what was left out, expected %d", got, message, want)
		}
	}
}
