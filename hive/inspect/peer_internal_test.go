package inspect

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDefaultSocket(t *testing.T) {
	for _, tt := range []struct {
		uid           int
		runtime, want string
	}{
		{0, "/run/user/0", "/run/app/app.sock"},
		{1000, "/run/user/1000", "/run/user/1000/app/app.sock"},
		{1000, "", "/tmp/app-1000/app.sock"},
	} {
		if got := defaultSocket("app", tt.uid, tt.runtime, "/tmp"); got != tt.want {
			t.Errorf("uid %d, %q: got %s, want %s", tt.uid, tt.runtime, got, tt.want)
		}
	}
}

func TestAllowedUsersAreRootAndOneself(t *testing.T) {
	for _, tt := range []struct {
		name      string
		own       uint32
		allMapped bool
		uid       uint32
		want      bool
	}{
		{"root", 1000, true, 0, true},
		{"own", 1000, true, 1000, true},
		{"other", 1000, true, 1001, false},
		{"root's agent, other", 0, true, 1000, false},
		{"sandbox, own", 0, false, 0, true},
		{"sandbox, not mapped", 0, false, overflowUID, false},
		{"own is nobody", overflowUID, true, overflowUID, true},
		{"own is nobody in a namespace, where others look like it", overflowUID, false, overflowUID, false},
	} {
		if got := allowed(tt.own, tt.allMapped)(tt.uid); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	for uidMap, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0       1000          1\n": false,
		"0 0 65536\n65536 100000 10\n":       false,
		"":                                   false,
	} {
		if got := mapsAll(uidMap); got != want {
			t.Errorf("%q: got %v", uidMap, got)
		}
	}
}

// log is written by the server's goroutine and read by the test's.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// greet accepts connections at path and writes "hello" to those that are allowed.
func greet(t *testing.T, path string, allowed func(uint32) bool) *log {
	t.Helper()
	inner, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &log{}
	listener := &peerListener{Listener: inner, allowed: allowed, logger: slog.New(slog.NewTextHandler(l, nil))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return l
}

func TestPeerThatIsNotAllowedIsCutOffAndLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	log := greet(t, path, func(uint32) bool { return false })
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil {
		t.Errorf("got %q, %v", answer, err)
	}
	if !strings.Contains(log.String(), "Refused a connection") {
		t.Errorf("log: %s", log)
	}
	err = NewClient(path).Get(t.Context(), "/v1/agent", nil, new(any))
	if err == nil || !strings.Contains(err.Error(), "only root and the user that the agent runs as") {
		t.Errorf("the client says %v", err)
	}
}

func TestForeignUserIsRefusedByModeAndByCredentials(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.sock")
	log := greet(t, path, allowedUIDs())
	if _, err := readAs(t, overflowUID, path); !errors.Is(err, syscall.EACCES) {
		t.Errorf("mode 0600: got %v", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if answer, err := readAs(t, overflowUID, path); answer != "" || err != nil {
		t.Errorf("open mode: got %q, %v", answer, err)
	}
	if !strings.Contains(log.String(), "uid=65534") {
		t.Errorf("log: %s", log)
	}
	if answer, err := readAs(t, 0, path); answer != "hello" {
		t.Errorf("root: got %q, %v", answer, err)
	}
}

// readAs connects as another user and reads to the end. It changes the user of one thread only, which then ends.
func readAs(t *testing.T, uid uintptr, path string) (answer string, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			err = errno
			return
		}
		answer, err = readSocket(path)
	}()
	<-done
	return answer, err
}

func readSocket(path string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return "", err
	}
	answer := make([]byte, 100)
	n, err := unix.Read(fd, answer)
	if err != nil {
		return "", err
	}
	return string(answer[:n]), nil
}

func TestDirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := filepath.Join(t.TempDir(), "theirs")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, overflowUID, overflowUID)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(t.TempDir(), link), os.Lchown(link, overflowUID, overflowUID)); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(t.TempDir(), "theirs")
	if err := errors.Join(os.MkdirAll(filepath.Join(below, "of root"), 0o700), os.Chown(below, overflowUID, overflowUID)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, link, filepath.Join(below, "of root"), filepath.Join(below, "of root", "new")} {
		if _, err := Listen(filepath.Join(d, "x.sock")); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
			t.Errorf("%s: got %v", d, err)
		}
	}
}

func TestLockThatIsNeverReleasedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock.lock")
	unlock, err := lock(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(path, 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), path+": choose another socket") {
		t.Errorf("got %v", err)
	}
	unlock()
	unlock, err = lock(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// Whoever may read the directory can lock it.
func TestALockOfTheDirectoryKeepsNobodyFromListening(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(filepath.Join(dir, "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestALockThatOthersMayHoldIsRefused(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"of another user": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, overflowUID, overflowUID))
		},
		"that others can read": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644)) },
		"a link":               func(path string) error { return os.Symlink("/dev/null", path) },
		"a pipe":               func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 {
				t.Skip("only root can make files of other users")
			}
			socket := filepath.Join(t.TempDir(), "x.sock")
			if err := plant(socket + ".lock"); err != nil {
				t.Fatal(err)
			}
			if _, err := Listen(socket); err == nil || !strings.Contains(err.Error(), socket+".lock") {
				t.Errorf("got %v", err)
			}
		})
	}
}
