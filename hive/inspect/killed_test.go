package inspect_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/internal/process/processtest"
)

// startAgent starts a process that listens.
func startAgent(t *testing.T, then func()) (program *processtest.Program, path string) {
	t.Helper()
	program = processtest.Start(t, func(values ...string) (io.Closer, error) {
		then()
		return inspect.Listen(values[0])
	}, func() []string {
		path = filepath.Join(t.TempDir(), "x.sock")
		return []string{path}
	})
	return program, path
}

// The kernel still accepts connections to its socket, which nobody answers.
func TestSocketOfAKilledAgentThatCannotEndIsReplaced(t *testing.T) {
	program, path := startAgent(t, func() {})
	if _, err := inspect.Listen(path); !errors.Is(err, inspect.ErrInUse) {
		t.Errorf("while it runs: %v", err)
	}
	program.Kill()
	err := inspect.NewClient(path).Get(t.Context(), "/v1/agent", nil, new(any))
	want := fmt.Sprintf("process %d, which listens there, was killed and cannot end (thread ", program.PID)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the client says %v, expected %q", err, want)
	}
	listen(t, path)
}

func TestSocketOfAnAgentWithoutItsMainThreadIsNotReplaced(t *testing.T) {
	program, path := startAgent(t, processtest.EndMainThread)
	program.WaitForState('Z')
	if _, err := inspect.Listen(path); !errors.Is(err, inspect.ErrInUse) {
		t.Errorf("got %v", err)
	}
}
