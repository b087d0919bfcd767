package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnAgentKeepsNoDescriptorsOfItsCaller starts agents from a shell that has files open, one of which has the settings.
func TestAnAgentKeepsNoDescriptorsOfItsCaller(t *testing.T) {
	t.Parallel()
	worlds := map[string]func(*testing.T) *world{
		"sandbox": func(t *testing.T) *world { return testWorld(t, user{name: "self"}) },
		"machine": func(t *testing.T) *world {
			w := testWorld(t, user{name: "self"})
			must(t, w.isolate(t.Context()))
			return w
		},
	}
	for name, newWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			secret, settings := w.path("secret"), w.path("settings.yaml")
			must(t, errors.Join(os.WriteFile(secret, nil, 0o600), os.WriteFile(settings, []byte("full-interval: 17m\n"), 0o600)))
			w.wrapper = []string{"bash", "-c", `exec 9<"$1" 77<"$1" 8<"$2"; shift 2; exec "$@"`, "bash", secret, settings}
			must(t, w.start(t.Context(), "--config", "/dev/fd/8"))
			if left := descriptorsOf(t, w.statehive(t.Context(), "pid"), secret); len(left) != 0 {
				t.Errorf("the agent has %v", left)
			}
			must(t, w.reload())
			must(t, until(t.Context(), patience, func(context.Context) error {
				log, err := os.ReadFile(w.log())
				if err == nil && !strings.Contains(string(log), "No setting has changed") {
					err = errors.New("settings were not read again")
				}
				return err
			}))
			must(t, w.stop())
		})
	}
}

// descriptorsOf returns those of the process whose number a command has printed that lead to a file.
func descriptorsOf(t *testing.T, pid result, file string) (found []string) {
	t.Helper()
	must(t, pid.failure())
	all, err := filepath.Glob(fmt.Sprintf("/proc/%s/fd/*", strings.TrimSpace(pid.stdout)))
	must(t, err)
	if len(all) < 4 {
		t.Errorf("only %d descriptors can be seen", len(all))
	}
	for _, path := range all {
		if target, err := os.Readlink(path); err == nil && target == file {
			found = append(found, path)
		}
	}
	return found
}
