package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestExampleRunsInASandboxAndNothingOutsideChanges does what `make run` does, in
// a copy of the example that the user owns and that his group can write, as in a clone made with
// the umask 002.
func TestExampleRunsInASandboxAndNothingOutsideChanges(t *testing.T) {
	for _, who := range users() {
		t.Run(who.name, func(t *testing.T) {
			before := observeTwice(t)
			w := testWorld(t, who)
			copyExample(t, w)
			chmodForGroup(t, w)

			must(t, w.launch("--full-interval", "1s", "--allow-writable-config"))
			must(t, until(t.Context(), 5*time.Second, func(ctx context.Context) error {
				return w.allDone(ctx).failure()
			}))
			want := map[string]counts{
				"addresses": {3, 3, 0}, "links": {3, 3, 0}, "neighbors": {1, 1, 0}, "nft-tables": {1, 1, 0}, "routes": {4, 4, 0}, "rules": {1, 1, 0}, "sysctls": {3, 3, 0},
			}
			if diff := differ(want, countsIn(w.statehive(t.Context(), "status").stdout)); diff != "" {
				t.Errorf("rows and how many are done: %s", diff)
			}
			metrics := w.scrape(t.Context(), "/metrics")
			must(t, metrics.failure())
			lint(t, metrics.stdout)
			if health := w.scrape(t.Context(), "/healthz"); health.err != nil || health.stdout != "ok\n" {
				t.Errorf("/healthz: %v", health)
			}
			must(t, w.fullPasses(t.Context()))
			if diff := before.diff(observe(t)); diff != "" {
				t.Errorf("outside, while the agent ran:\n%s", diff)
			}
			must(t, w.stop())
			if diff := before.diff(observe(t)); diff != "" {
				t.Errorf("outside, after the agent has stopped:\n%s", diff)
			}
		})
	}
}

func copyExample(t *testing.T, w *world) {
	t.Helper()
	paths, err := filepath.Glob("../../../../examples/node/*.yaml")
	must(t, err)
	documents := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		documents[filepath.Base(path)] = string(text)
	}
	must(t, w.setup(documents))
}

// chmodForGroup has the user's group write to the documents.
func chmodForGroup(t *testing.T, w *world) {
	t.Helper()
	must(t, os.Chmod(w.documents(), 0o775))
	paths, err := filepath.Glob(filepath.Join(w.documents(), "*"))
	must(t, err)
	for _, path := range paths {
		must(t, os.Chmod(path, 0o664))
	}
}
