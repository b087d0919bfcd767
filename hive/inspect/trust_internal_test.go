package inspect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestClientBelievesOnlyThoseWhoMayBeTheAgent(t *testing.T) {
	const other, third = 65533, 65532
	for name, c := range map[string]struct {
		owner, listener int
		mode            fs.FileMode
		want            string // the end of the error; empty: none
	}{
		"root":                                {0, 0, 0o755, ""},
		"a user in a directory for all":       {0, other, 0o777 | fs.ModeSticky, ": uid 65533 listens there, expected root or uid 0"},
		"root in a directory for all":         {0, 0, 0o777 | fs.ModeSticky, ""},
		"a directory that others can change":  {0, 0, 0o777, "could listen in the agent's place"},
		"a user's agent, asked by root":       {other, other, 0o700, ""},
		"somebody else in a user's directory": {other, third, 0o755, ": uid 65532 listens there, expected root or uid 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if self := os.Getuid(); self != 0 {
				if c.owner != 0 || c.listener != 0 {
					t.Skip("only root can become another user")
				}
				c.owner, c.listener = self, self
			}
			path := filepath.Join(t.TempDir(), "dir", "x.sock")
			dir := filepath.Dir(path)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			listenAs(t, c.listener, path)
			if err := errors.Join(os.Chown(dir, c.owner, c.owner), os.Chmod(dir, c.mode)); err != nil {
				t.Fatal(err)
			}
			conn, err := dialTrusted(t.Context(), path)
			if err == nil {
				defer func() { _ = conn.Close() }()
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			err = NewClient(path).Get(t.Context(), "/v1/agent", nil, new(any))
			var unreachable *UnreachableError
			if !errors.As(err, &unreachable) || !strings.HasSuffix(unreachable.reason(), strings.TrimPrefix(c.want, ": ")) {
				t.Errorf("the client says %v, expected %q", err, c.want)
			}
		})
	}
}

// listenAs has another user listen at a path, which root made.
func listenAs(t *testing.T, uid int, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { _ = unix.Close(fd) })
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			result <- errno
			return
		}
		result <- unix.Listen(fd, 1)
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}
