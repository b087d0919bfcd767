package nstest

import (
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// Shower is an ip(8) that runs until the end of a test, for tests that look at the kernel thousands of times: a process for each look
// would take most of their time. It remembers the names of devices, which must stay as they are.
type Shower struct {
	options []string
	in      io.Writer
	out     *json.Decoder
}

// NewShower starts one with options such as -6.
func NewShower(t *testing.T, options ...string) *Shower {
	t.Helper()
	command := exec.Command("ip", append(options, "-json", "-batch", "-")...) //nolint:noctx // ends with its input
	var stderr strings.Builder
	command.Stderr = &stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := command.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("ip %v: %v\n%s", options, err, &stderr)
		}
	})
	return &Shower{options, in, json.NewDecoder(out)}
}

// Show stores what ip(8) shows in into.
func (s *Shower) Show(t *testing.T, into any, arguments ...string) {
	t.Helper()
	_, err := io.WriteString(s.in, strings.Join(arguments, " ")+"\n")
	if err == nil {
		err = s.out.Decode(into)
	}
	if err != nil {
		t.Fatalf("ip %v %v: %v", s.options, arguments, err)
	}
}
