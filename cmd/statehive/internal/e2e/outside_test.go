package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outside is what an agent in a sandbox must not change: sysctls by their
// names, and links, addresses, routes and rules as the kernel lists them.
type outside map[string]string

// kernelOwn matches sysctls that the kernel changes when others do something, which
// may be while no test looks what changes by itself.
var kernelOwn = regexp.MustCompile(`^(kernel\.perf_event_max_sample_rate|kernel\.pty\.nr|net\.netfilter\.nf_conntrack_count|fs\.quota\..*)$`)

func observe(t *testing.T) outside {
	t.Helper()
	o := outside{}
	// It fails for those that cannot be read, after all that can be.
	sysctls, _ := exec.CommandContext(t.Context(), "sysctl", "-a").Output()
	for line := range strings.Lines(string(sysctls)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if !kernelOwn.MatchString(name) {
			o["sysctl "+name] += value // some have several lines
		}
	}
	if len(o) < 100 {
		t.Fatalf("only %d sysctls can be seen", len(o))
	}
	for _, command := range []string{
		"ip -j -d link", "ip -j -d addr", "ip -j -4 rule", "ip -j -6 rule",
		"ip -j -d -4 route show table all", "ip -j -d -6 route show table all",
	} {
		for _, object := range list(t, command) {
			o[command+": "+object] = ""
		}
	}
	return o
}

// list returns the objects that a command lists as JSON, without what counts down.
func list(t *testing.T, command string) []string {
	t.Helper()
	args := strings.Fields(command)
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	must(t, err)
	return objects(t, out, "valid_life_time", "preferred_life_time", "expires")
}

// objects returns the elements of a list in JSON, without some fields.
func objects(t *testing.T, text []byte, without ...string) []string {
	t.Helper()
	var all []any
	must(t, json.Unmarshal(text, &all))
	texts := make([]string, len(all))
	for i, object := range all {
		for _, field := range without {
			removeField(object, field)
		}
		text, err := json.Marshal(object)
		must(t, err)
		texts[i] = string(text)
	}
	return texts
}

func removeField(object any, field string) {
	switch object := object.(type) {
	case map[string]any:
		delete(object, field)
		for _, child := range object {
			removeField(child, field)
		}
	case []any:
		for _, child := range object {
			removeField(child, field)
		}
	}
}

// baseline is what was outside before, and what changed there by itself.
type baseline struct {
	was      outside
	restless map[string]bool
}

// observeTwice finds out what changes by itself, while files are opened and
// namespaces come and go.
func observeTwice(t *testing.T) baseline {
	t.Helper()
	b := baseline{was: observe(t), restless: map[string]bool{}}
	openFiles(t, 200)
	must(t, exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--net", "--mount", "ip", "link").Run())
	now := observe(t)
	for _, keys := range []outside{b.was, now} {
		for key := range keys {
			if value, ok := now[key]; !ok || value != b.was[key] || !has(b.was, key) {
				b.restless[key] = true
			}
		}
	}
	return b
}

// openFiles makes files and keeps them open to the end of the test.
func openFiles(t *testing.T, n int) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		file, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		must(t, err)
		t.Cleanup(func() { file.Close() })
	}
}

func has(o outside, key string) bool {
	_, ok := o[key]
	return ok
}

// diff says what is different now.
func (b baseline) diff(now outside) string {
	return cmp.Diff(b.calm(b.was), b.calm(now))
}

func (b baseline) calm(o outside) outside {
	calm := outside{}
	for key, value := range o {
		if !b.restless[key] {
			calm[key] = value
		}
	}
	return calm
}
