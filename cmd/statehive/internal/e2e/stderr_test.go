package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The reader of the log may hang, as that of "statehive agent 2>&1 | less" does.
func TestAnAgentWhoseLogNobodyReadsKeepsRunning(t *testing.T) {
	t.Parallel()
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	// 64 KiB fit into the pipe.
	w.wrapper = []string{"bash", "-c", `exec 2> >(exec sleep 600); head -c "$1" /dev/zero >&2; shift; exec "$@"`, "bash", "65536"}
	must(t, w.launch())
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.statehive(ctx, "pid").failure() }))
	file := w.path("made")
	must(t, os.WriteFile(filepath.Join(w.documents(), "file.yaml"), []byte("kind: file\npath: "+file+"\ncontent: x\n"), 0o600))
	must(t, until(t.Context(), patience, func(context.Context) error {
		if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
			return errors.Join(err, errors.New("the file is not made"))
		}
		return nil
	}))
	must(t, w.stop())
}
