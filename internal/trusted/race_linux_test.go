package trusted

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// While others exchange what a path leads to, it is opened or not, but nothing else is ever
// opened in its place.
func TestNothingElseIsOpenedWhileItIsExchanged(t *testing.T) {
	const rounds = 3000
	for name, c := range map[string]struct {
		bait   func(t *testing.T, dir, secret string) // makes dir/bait, which is exchanged with what
		what   string                                 // default: good
		path   string                                 // that is opened, default: good
		policy Policy
		root   bool // only root can make the bait
	}{
		"a file and one of others": {bait: func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(dir+"/bait", []byte("secret"), 0o644), os.Chown(dir+"/bait", other, other))
		}, root: true},
		"a file and one that others may write": {bait: func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(dir+"/bait", []byte("secret"), 0o644), os.Chmod(dir+"/bait", 0o666))
		}},
		"a file and a link out": {bait: func(t *testing.T, dir, secret string) { must(t, os.Symlink(secret+"/good", dir+"/bait")) }},
		"a file and a link out, in a directory of others": {
			bait:   func(t *testing.T, dir, secret string) { must(t, os.Symlink(secret+"/good", dir+"/bait")) },
			policy: Policy{AllowWritable: true},
		},
		"a file and a pipe": {bait: func(t *testing.T, dir, _ string) { must(t, unix.Mkfifo(dir+"/bait", 0o600)) }},
		"a file and a pipe, in a directory of others": {
			bait: func(t *testing.T, dir, _ string) { must(t, unix.Mkfifo(dir+"/bait", 0o600)) }, policy: Policy{AllowWritable: true},
		},
		"a file and a device": {
			bait:   func(t *testing.T, dir, _ string) { must(t, os.Symlink("/dev/zero", dir+"/bait")) },
			policy: Policy{AllowWritable: true},
		},
		"a directory and a link out": {
			bait: func(t *testing.T, dir, secret string) { must(t, os.Symlink(secret, dir+"/bait")) },
			what: "sub", path: "sub/good", policy: Policy{AllowWritable: true},
		},
		"a directory and one that others may write": {
			bait: func(t *testing.T, dir, _ string) {
				must(t, os.Mkdir(dir+"/bait", 0o755), os.WriteFile(dir+"/bait/good", []byte("secret"), 0o600), os.Chmod(dir+"/bait", 0o777))
			},
			what: "sub", path: "sub/good",
		},
		"two links, as of a ConfigMap": {
			bait: func(t *testing.T, dir, secret string) { must(t, os.Symlink(secret, dir+"/bait")) },
			what: "..data", path: "..data/good",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Getuid() != 0 {
				t.Skip("only root can give files to others")
			}
			dir, secret := tree(t), tree(t)
			must(t, os.WriteFile(secret+"/good", []byte("secret"), 0o600), os.Mkdir(dir+"/sub", 0o755),
				os.WriteFile(dir+"/sub/good", []byte("content"), 0o600), os.Symlink("sub", dir+"/..data"))
			c.bait(t, dir, secret)
			if c.what == "" {
				c.what, c.path = "good", "good"
			}
			c.policy.Within = dir
			exchange := exchanging(t, dir+"/"+c.what, dir+"/bait")
			opened := 0
			for range rounds {
				switch content, err := read(dir+"/"+c.path, c.policy); {
				case err == nil && content == "content":
					opened++
				case err == nil:
					t.Fatalf("it says %q", content)
				}
			}
			if times := exchange(); opened == 0 || opened == rounds {
				t.Errorf("opened %d times of %d, exchanged %d times: nothing was tried", opened, rounds, times)
			}
		})
	}
}

// exchanging exchanges two files over and over, until the function is called that it returns.
func exchanging(t *testing.T, a, b string) (stop func() (times int)) {
	t.Helper()
	done := make(chan struct{})
	times := 0
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			times++
		}
	})
	stop = sync.OnceValue(func() int {
		close(done)
		group.Wait()
		return times
	})
	t.Cleanup(func() { stop() })
	return stop
}

// A process that leads a session and has no terminal gets the first one that it opens as its
// controlling one, and the terminal's signals with it.
func TestATerminalDoesNotBecomeTheControllingOne(t *testing.T) {
	const variable = "STATEHIVE_TEST_TERMINAL"
	if path := os.Getenv(variable); path != "" {
		if _, err := read(path, Policy{}); !errors.Is(err, ErrSpecial) {
			t.Errorf("a terminal: %v", err)
		}
		if f, err := OpenIn("/dev/pts", strings.TrimPrefix(path, "/dev/pts/"), os.O_RDWR); err == nil {
			t.Errorf("%s was opened", f.Name())
		}
		if tty, err := os.Open("/dev/tty"); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("there is a controlling terminal: %v, %v", tty, err)
		}
		return
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer func() { _ = terminal.Close() }()
	must(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	must(t, err)
	command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), variable+"="+fmt.Sprint("/dev/pts/", strconv.Itoa(number)))
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
