package file

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deadline bounds waiting for the kernel.
const deadline = 20 * time.Second

// runner is a source that runs.
type runner struct {
	*harness
}

// running starts a source that rescans so seldom, and must be told of all that it
// watches, that the tests would fail without watches.
func running(t *testing.T, dir string, change func(*Config)) runner {
	t.Helper()
	h := &harness{fixture: newFixture(t), t: t, dir: dir}
	c := h.config(t, dir)
	c.Rescan = time.Hour
	if change != nil {
		change(&c)
	}
	var err error
	h.source, err = New(c)
	h.must(err)
	h.cursor = h.routes.Changes(0)
	t.Cleanup(h.cursor.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if h.source.watchError != "" {
			t.Errorf("it has to look for changes, because it cannot hear of them: %s", h.source.watchError)
		}
	})
	r := runner{h}
	_, initialized := h.routes.Initialized(h.db.ReadTxn())
	select {
	case <-initialized:
	case <-time.After(deadline):
		t.Fatal("not initialized")
	}
	return r
}

// become waits until the destinations and devices of the routes are these.
func (r runner) become(want ...string) {
	r.t.Helper()
	late := time.After(deadline)
	for {
		var got []string
		rows, changed := r.routes.AllWatch(r.db.ReadTxn())
		for row := range rows {
			got = append(got, row.Destination.String()+" "+row.Device)
		}
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-late:
			r.t.Fatalf("routes are %q, want %q", got, want)
		}
	}
}

// told waits until an error of a file, or no error, holds what is wanted.
func (r runner) told(file, want string) {
	r.t.Helper()
	late := time.After(deadline)
	for {
		d, _, changed, found := r.source.Documents().GetWatch(r.db.ReadTxn(), byFile().Query(file))
		if found && strings.Contains(d.Error, want) && (want != "") == (d.Error != "") {
			return
		}
		select {
		case <-changed:
		case <-late:
			r.t.Fatalf("%s says %q, want %q", file, d.Error, want)
		}
	}
}

func TestRunFollowsPlainWritesAndDeletes(t *testing.T) {
	r := running(t, t.TempDir(), nil)
	r.write("a.yaml", routeTo(netA, "eth0"))
	r.become(netA + " eth0")
	r.write("a.yaml", routeTo(netA, "eth1"))
	r.become(netA + " eth1")
	r.write("b.yaml", "kind: rout\n")
	r.told(r.path("b.yaml"), "unknown kind")
	r.write("b.yaml", routeTo(netB, "eth0"))
	r.told(r.path("b.yaml"), "")
	r.become(netA+" eth1", netB+" eth0")
	r.remove("a.yaml")
	r.become(netB + " eth0")
}

func TestRunFollowsEditorsThatReplace(t *testing.T) {
	replace := map[string]func(r runner, data string){
		"rename over": func(r runner, data string) {
			r.write(".a.yaml.tmp", data)
			r.must(os.Rename(r.path(".a.yaml.tmp"), r.path("a.yaml")))
		},
		"backup, then new file": func(r runner, data string) {
			r.must(os.Rename(r.path("a.yaml"), r.path("a.yaml~")))
			r.write("a.yaml", data)
			r.remove("a.yaml~")
		},
		"delete, then new file": func(r runner, data string) {
			r.remove("a.yaml")
			r.write("a.yaml", data)
		},
		"truncate, then write": func(r runner, data string) {
			f, err := os.OpenFile(r.path("a.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
			r.must(err)
			for part := range strings.SplitAfterSeq(data, "\n") {
				_, err := f.WriteString(part)
				r.must(err)
			}
			r.must(f.Close())
		},
	}
	for name, write := range replace {
		t.Run(name, func(t *testing.T) {
			r := running(t, t.TempDir(), nil)
			r.write("a.yaml", routeTo(netA, "eth0"))
			r.become(netA + " eth0")
			r.wantChanges("+" + netA)
			for _, device := range []string{"eth1", "eth2"} {
				write(r, routeTo(netA, device))
				r.become(netA + " " + device)
				r.wantChanges("+" + netA)
			}
		})
	}
}

func TestRunFollowsSymlinkSwaps(t *testing.T) {
	// A ConfigMap: a.yaml -> ..data/a.yaml, ..data -> ..1, and ..data is replaced.
	dir := t.TempDir()
	version := func(h *harness, name, device string) {
		h.must(os.Mkdir(h.path(name), 0o700))
		h.write(filepath.Join(name, "a.yaml"), routeTo(netA, device))
		h.must(os.Symlink(name, h.path("..data_tmp")))
		h.must(os.Rename(h.path("..data_tmp"), h.path("..data")))
	}
	first := &harness{t: t, dir: dir}
	version(first, "..1", "v1")
	first.must(os.Symlink("..data/a.yaml", first.path("a.yaml")))
	r := running(t, dir, nil)
	r.become(netA + " v1")
	for _, v := range []string{"2", "3"} {
		version(r.harness, ".."+v, "v"+v)
		r.become(netA + " v" + v)
	}
	r.must(os.RemoveAll(r.path("..1")))
	version(r.harness, "..4", "v4")
	r.become(netA + " v4")
}

func TestRunFollowsTargetsInDirectoriesBelow(t *testing.T) {
	dir := t.TempDir()
	elsewhere := &harness{t: t, dir: filepath.Join(dir, "below")}
	elsewhere.must(os.Mkdir(elsewhere.dir, 0o700))
	elsewhere.must(os.Mkdir(elsewhere.path("v1"), 0o700))
	elsewhere.must(os.Mkdir(elsewhere.path("v2"), 0o700))
	elsewhere.write("v1/x", routeTo(netA, "v1"))
	elsewhere.write("v2/x", routeTo(netA, "v2"))
	elsewhere.must(os.Symlink("v1", elsewhere.path("current")))
	elsewhere.must(os.Symlink(elsewhere.path("current/x"), filepath.Join(dir, "a.yaml")))
	r := running(t, dir, nil)
	r.become(netA + " v1")
	elsewhere.write("v1/x", routeTo(netA, "v1b"))
	r.become(netA + " v1b")
	elsewhere.must(os.Symlink("v2", elsewhere.path("next")))
	elsewhere.must(os.Rename(elsewhere.path("next"), elsewhere.path("current")))
	r.become(netA + " v2")
	elsewhere.write("v2/x", routeTo(netA, "v2b"))
	r.become(netA + " v2b")
}

func TestRunFollowsADirectoryThatIsALink(t *testing.T) {
	base := &harness{t: t, dir: t.TempDir()}
	for _, v := range []string{"v1", "v2"} {
		base.must(os.Mkdir(base.path(v), 0o700))
		base.write(v+"/a.yaml", routeTo(netA, v))
	}
	base.must(os.Symlink("v1", base.path("current")))
	r := running(t, base.path("current"), nil)
	r.become(netA + " v1")
	base.must(os.Symlink("v2", base.path("next")))
	base.must(os.Rename(base.path("next"), base.path("current")))
	r.become(netA + " v2")
	base.write("v2/a.yaml", routeTo(netA, "v2b"))
	r.become(netA + " v2b")
}

func TestRunSurvivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "conf")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := running(t, dir, nil)
	for _, device := range []string{"eth0", "eth1"} {
		r.write("a.yaml", routeTo(netA, device))
		r.become(netA + " " + device)
		r.must(os.RemoveAll(dir))
		r.told(dir, "cannot be listed: no such file or directory")
		r.wantRoutes(netA + " " + device)
		r.must(os.Mkdir(dir, 0o700))
	}
	r.told(dir, "the directory no longer has any documents") // and nobody approves it
	r.become(netA + " eth1")
	r.write("a.yaml", routeTo(netB, "eth2"))
	r.become(netB + " eth2")
}

func TestOnlyWhatIsReadIsWatched(t *testing.T) {
	h := &harness{t: t, dir: t.TempDir()}
	var links []string
	for i, target := range []string{"/dev/zero", "/proc/kmsg", "../secret", "nowhere", "b.yaml"} {
		links = append(links, h.path(fmt.Sprintf("link%d.yaml", i)))
		h.must(os.Symlink(target, links[i]))
	}
	in := interestOf(h.dir, links)
	if got, want := slices.Sorted(maps.Keys(in.directories())), []string{filepath.Dir(h.dir), h.dir}; !slices.Equal(got, want) {
		t.Errorf("watched are %q, want %q", got, want)
	}
	for _, name := range []string{"nowhere", "b.yaml"} {
		if !in.concerns(h.path(name)) {
			t.Errorf("%s is not of interest, want it to be", name)
		}
	}
}

func TestRunRescansWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte(routeTo(netA, "eth0")), 0o600); err != nil {
		t.Fatal(err)
	}
	// Nobody tells of what happens to a file through another of its names.
	if err := os.Link(target, filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	r := running(t, dir, func(c *Config) { c.Rescan = 20 * time.Millisecond })
	r.become(netA + " eth0")
	for _, device := range []string{"eth1", "eth2", "eth3"} { // the first may be seen when the file is looked at once more
		r.must(os.WriteFile(target, []byte(routeTo(netA, device)), 0o600))
		r.become(netA + " " + device)
	}
}

func TestRunFollowsManyQuickChanges(t *testing.T) {
	r := running(t, t.TempDir(), nil)
	for i := range 300 {
		r.write("a.yaml", routeTo(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16).String(), "eth0"))
	}
	r.become("10.43.0.0/16 eth0")
}

func TestRunOnAPipeDoesNotHang(t *testing.T) {
	r := running(t, t.TempDir(), nil)
	r.must(syscall.Mkfifo(r.path("a.yaml"), 0o600))
	r.told(r.path("a.yaml"), "cannot be read: not a regular file")
}
