//go:build !race

// The race detector takes memory of its own, so this is not tested under it.

package file

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// worst are the files that cost most memory.
var worst = []string{
	"flow map", "long name", "list of problems", accepted + "flow map", accepted + "pairs in a flow list", accepted + "flow lists",
	accepted + "comments on lines", accepted + "list of problems", accepted + "quoted lists", accepted + "names", accepted + "long value",
	accepted + "names in a flow list", accepted + "entries in a flow list", accepted + "entries with tabs",
}

const hostileVariable = "STATEHIVE_TEST_HOSTILE"

// TestHostileFilesCostLittleMemory parses each file in a process of its own and looks at the most memory that it had at any time.
func TestHostileFilesCostLittleMemory(t *testing.T) {
	if name := os.Getenv(hostileVariable); name != "" {
		parseHostile(t, name)
		return
	}
	for _, name := range worst {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHostileFilesCostLittleMemory$", "-test.v")
			// The collector is late, as on a busy machine.
			command.Env = append(os.Environ(), hostileVariable+"="+name, "GOGC=200")
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

func parseHostile(t *testing.T, name string) {
	p, data := newFixture(t).parser(t), hostileFile(name)
	before := mostMemory(t)
	c := p.parse("f.yaml", data)
	used := (mostMemory(t) - before + len(data)) >> 20
	if t.Logf("%d MiB for %d bytes, %d documents, %v", used, len(data), c.total, c.problems[:min(1, len(c.problems))]); used > 100 {
		t.Errorf("it took %d MiB, want at most 100", used)
	}
	for _, problem := range c.problems {
		if text := problem.String(); len(text) > 1000 {
			t.Errorf("the text of a problem has %d bytes: %s", len(text), text)
		}
	}
	if len(c.problems) > maxProblems+1 {
		t.Errorf("%d problems, want at most %d", len(c.problems), maxProblems+1)
	}
	runtime.KeepAlive(data)
}

// mostMemory returns how many bytes of memory the process had at most at any time.
func mostMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// FuzzMemory looks for a text that makes the parser take much memory if a document, or a file of many, repeats it.
func FuzzMemory(f *testing.F) {
	for _, parts := range hostile {
		for _, size := range []uint32{1 << 16, 1 << 18} {
			f.Add(parts[0], parts[1], size)
		}
	}
	p := newFixture(f).parser(f)
	f.Fuzz(func(t *testing.T, begin, repeated string, size uint32) {
		if repeated == "" || len(begin)+len(repeated) > 1<<10 || size > MaxFileSize || int(size) < len(begin) {
			t.Skip()
		}
		data := append([]byte(begin), bytes.Repeat([]byte(repeated), (int(size)-len(begin))/len(repeated))...)
		debug.FreeOSMemory()
		// The most memory counts from here on: see proc_pid_clear_refs(5).
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Fatal(err)
		}
		before := mostMemory(t)
		p.parse("f.yaml", data)
		if used := (mostMemory(t) - before + len(data)) >> 20; used > 100 {
			t.Errorf("it took %d MiB for %d bytes, want at most 100", used, len(data))
		}
		runtime.KeepAlive(data)
	})
}
