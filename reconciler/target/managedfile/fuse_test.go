package managedfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
)

// The requests of the FUSE protocol that a servedDisk knows.
const (
	fuseLookup     = 1
	fuseForget     = 2
	fuseGetattr    = 3
	fuseSetattr    = 4
	fuseReadlink   = 5
	fuseSymlink    = 6
	fuseUnlink     = 10
	fuseRename     = 12
	fuseOpen       = 14
	fuseRead       = 15
	fuseWrite      = 16
	fuseStatfs     = 17
	fuseRelease    = 18
	fuseFsync      = 20
	fuseFlush      = 25
	fuseInit       = 26
	fuseOpendir    = 27
	fuseReleasedir = 29
	fuseFsyncdir   = 30
	fuseCreate     = 35
	fuseInterrupt  = 36
	fusePoll       = 40
	fuseForgets    = 42
	fuseRenameNew  = 45 // replaces none
)

// servedDisk is a file system of one directory in user space. Its owner, another process, decides
// which requests are answered, and when.
type servedDisk struct {
	t        *testing.T
	commands io.Writer
	answers  *bufio.Reader
}

// serveDisk mounts one, until the test ends.
func serveDisk(t *testing.T, dir string) *servedDisk { t.Helper(); return serveDiskOf(t, 0, dir) }

// serveDiskOf mounts one as a user.
func serveDiskOf(t *testing.T, user int, dir string) *servedDisk {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	mode := "40000"
	if info, err := os.Stat(dir); err == nil && info.Mode().IsRegular() {
		mode = "100644"
	}
	must(t, unix.Mount("served", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=%s,user_id=%d,group_id=0,allow_other", fd, mode, user)))
	file := os.NewFile(uintptr(fd), "fuse")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestChildThatServesADisk$")
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), serves+"=1"), []*os.File{file}, os.Stderr
	commands, err := cmd.StdinPipe()
	must(t, err)
	answers, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, file.Close())
	t.Cleanup(func() {
		must(t, cmd.Process.Kill())                                                  // all who wait get an error
		_ = cmd.Wait()                                                               // it was killed
		if err := unix.Unmount(dir, unix.MNT_DETACH); !errors.Is(err, unix.EINVAL) { // the test may have unmounted it
			must(t, err)
		}
	})
	return &servedDisk{t, commands, bufio.NewReader(answers)}
}

// tell gives the owner a command.
func (d *servedDisk) tell(command string, args ...any) {
	d.t.Helper()
	_, err := fmt.Fprintln(d.commands, append([]any{command}, args...)...)
	must(d.t, err)
	_, err = d.answers.ReadString('\n')
	must(d.t, err)
}

// hang makes requests of some kinds wait, until thaw.
func (d *servedDisk) hang(kinds ...any) { d.t.Helper(); d.tell("hang", kinds...) }

// hangAfter makes requests of a kind wait after a number of them.
func (d *servedDisk) hangAfter(number, kind int) { d.t.Helper(); d.tell("after", number, kind) }

// thaw answers all who wait.
func (d *servedDisk) thaw() { d.t.Helper(); d.tell("thaw") }

// refuse answers all who wait with an error, and goes on.
func (d *servedDisk) refuse() { d.t.Helper(); d.tell("refuse") }

// fail makes requests of a kind get an error.
func (d *servedDisk) fail(kind int) { d.t.Helper(); d.tell("fail", kind) }

// slow makes each answer take a number of milliseconds.
func (d *servedDisk) slow(ms int) { d.t.Helper(); d.tell("slow", ms) }

const serves = "STATEHIVE_TEST_SERVES"

func TestChildThatServesADisk(t *testing.T) {
	if os.Getenv(serves) == "" {
		return // serveDisk asks for it
	}
	s := &server{
		fd: 3, names: map[string]uint64{}, last: 1, hanging: map[uint32]int{}, failing: map[uint32]bool{},
		nodes: map[uint64]*servedFile{1: {mode: unix.S_IFDIR | 0o755, changed: time.Now()}},
	}
	go s.run()
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		words := strings.Fields(commands.Text())
		s.obey(words[0], words[1:])
		_, err := os.Stdout.WriteString("done\n")
		must(t, err)
	}
}

// server is the process that serves a disk.
type server struct {
	fd int

	mu      sync.Mutex
	names   map[string]uint64
	nodes   map[uint64]*servedFile
	last    uint64
	hanging map[uint32]int // requests of these kinds wait, after a number of them
	failing map[uint32]bool
	waiting [][]byte
	delay   time.Duration // of all others
}

type servedFile struct {
	data           []byte
	mode, uid, gid uint32
	changed        time.Time
}

func (s *server) run() {
	for request := make([]byte, 2<<20); ; {
		n, err := unix.Read(s.fd, request)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) {
			return
		}
		if err == nil {
			s.got(bytes.Clone(request[:n]))
		}
	}
}

func (s *server) obey(command string, args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := make([]int, len(args))
	for i, arg := range args {
		numbers[i], _ = strconv.Atoi(arg) // from servedDisk
	}
	switch command {
	case "slow":
		s.delay = time.Duration(numbers[0]) * time.Millisecond
	case "after":
		s.hanging[uint32(numbers[1])] = numbers[0]
	case "hang":
		for _, kind := range numbers {
			s.hanging[uint32(kind)] = 0
		}
	case "fail":
		s.failing[uint32(numbers[0])] = true
	case "thaw", "refuse":
		clear(s.hanging)
		for _, request := range s.waiting {
			if command == "refuse" {
				s.reply(request, nil, unix.EIO)
			} else {
				s.serve(request)
			}
		}
		s.waiting = nil
	}
}

func (s *server) got(request []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := binary.NativeEndian.Uint32(request[4:])
	left, hangs := s.hanging[kind]
	if left > 0 {
		s.hanging[kind]--
		hangs = false
	}
	switch {
	case s.failing[kind]:
		s.reply(request, nil, unix.EIO)
	case hangs:
		s.waiting = append(s.waiting, request)
	case s.delay > 0 && kind != fuseInit:
		time.AfterFunc(s.delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.serve(request)
		})
	default:
		s.serve(request)
	}
}

func (s *server) serve(request []byte) {
	const header = 40
	switch kind := binary.NativeEndian.Uint32(request[4:]); kind {
	case fuseForget, fuseForgets, fuseInterrupt: // are not answered
	default:
		answer, errno := s.answer(kind, binary.NativeEndian.Uint64(request[16:]), request[header:])
		s.reply(request, answer, errno)
	}
}

func (s *server) reply(request, answer []byte, errno unix.Errno) {
	head := make([]byte, 8, 16+len(answer))
	binary.NativeEndian.PutUint32(head, uint32(16+len(answer)))
	binary.NativeEndian.PutUint32(head[4:], uint32(-int32(errno)))
	_, _ = unix.Write(s.fd, append(append(head, request[8:16]...), answer...)) // the request may have been interrupted
}

func (s *server) answer(kind uint32, node uint64, body []byte) ([]byte, unix.Errno) {
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	f := s.nodes[node]
	switch kind {
	case fuseInit:
		return packed(7, 31, u32(body[8:]), 0, 0, 1<<20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0
	case fuseLookup:
		id, found := s.names[text0(body)]
		if !found {
			return nil, unix.ENOENT
		}
		return s.entry(id), 0
	case fuseGetattr:
		return append(make([]byte, 16), s.attributes(node)...), 0
	case fuseSetattr:
		for _, each := range []struct {
			bit uint32
			set func()
		}{
			{1, func() { f.mode = f.mode&unix.S_IFMT | u32(body[68:])&0o7777 }},
			{2, func() { f.uid = u32(body[76:]) }},
			{4, func() { f.gid = u32(body[80:]) }},
			{8, func() { f.data = append(f.data, make([]byte, u64(body[16:]))...)[:u64(body[16:])] }},
		} {
			if u32(body)&each.bit != 0 {
				each.set()
			}
		}
		f.changed = time.Now()
		return append(make([]byte, 16), s.attributes(node)...), 0
	case fuseReadlink:
		return f.data, 0
	case fuseSymlink:
		name, target, _ := bytes.Cut(body, []byte{0})
		s.last++
		s.names[string(name)] = s.last
		s.nodes[s.last] = &servedFile{mode: unix.S_IFLNK | 0o777, changed: time.Now(), data: []byte(text0(target))}
		return s.entry(s.last), 0
	case fuseUnlink:
		if _, found := s.names[text0(body)]; !found {
			return nil, unix.ENOENT
		}
		delete(s.names, text0(body))
	case fuseRename, fuseRenameNew:
		names := body[8:]
		if kind == fuseRenameNew {
			names = body[16:]
		}
		from, rest, _ := bytes.Cut(names, []byte{0})
		to := text0(rest)
		_, there := s.names[to]
		id, found := s.names[string(from)]
		switch {
		case !found:
			return nil, unix.ENOENT
		case there && kind == fuseRenameNew:
			return nil, unix.EEXIST
		}
		delete(s.names, string(from))
		s.names[to] = id
	case fuseCreate:
		s.last++
		s.names[text0(body[16:])] = s.last
		s.nodes[s.last] = &servedFile{mode: unix.S_IFREG | u32(body[4:])&0o777, changed: time.Now()}
		return append(s.entry(s.last), make([]byte, 16)...), 0
	case fuseOpen, fuseOpendir:
		return make([]byte, 16), 0
	case fuseRead:
		from := min(u64(body[8:]), uint64(len(f.data)))
		return f.data[from:min(from+uint64(u32(body[16:])), uint64(len(f.data)))], 0
	case fuseWrite:
		at, data := u64(body[8:]), body[40:]
		f.data = slices.Concat(append(f.data, make([]byte, at)...)[:at], data) // the kernel writes a file from its beginning
		f.changed = time.Now()
		return packed(uint32(len(data)), 0), 0
	case fuseStatfs:
		return make([]byte, 80), 0
	case fuseRelease, fuseReleasedir, fuseFsync, fuseFsyncdir, fuseFlush:
	default:
		return nil, unix.ENOSYS
	}
	return nil, 0
}

func (s *server) entry(id uint64) []byte {
	return append(binary.NativeEndian.AppendUint64(nil, id), append(make([]byte, 32), s.attributes(id)...)...)
}

// attributes are not cached.
func (s *server) attributes(id uint64) []byte {
	f := s.nodes[id]
	var all []byte
	at := uint64(f.changed.Unix())
	for _, v := range []uint64{id, uint64(len(f.data)), 0, at, at, at} {
		all = binary.NativeEndian.AppendUint64(all, v)
	}
	ns := uint32(f.changed.Nanosecond())
	return append(all, packed(ns, ns, ns, f.mode, 1, f.uid, f.gid, 0, 4096, 0)...)
}

func packed(values ...uint32) (all []byte) {
	for _, v := range values {
		all = binary.NativeEndian.AppendUint32(all, v)
	}
	return all
}

// text0 is a text that ends with a zero.
func text0(data []byte) string {
	name, _, _ := bytes.Cut(data, []byte{0})
	return string(name)
}

func TestADiskInUserSpaceIsUsedLikeAnyOther(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	serveDisk(t, dir)
	target := openedTarget(t, state)
	row := file(dir+"/a", "one\n")
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, file(dir+"/a", "two\n", withMode(0o600)), true)
	wantFile(t, row.Path, "two\n", 0o600)
	mustDelete(t, target, row)
	wantAbsent(t, row.Path)
	wantTidy(t, dir, state)
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

// A file system in user space says of each file whose it is, and its owner can have it say root. It need not say what it is. What is written
// to it is its owner's.
func TestADiskInUserSpaceOfAnotherUserIsNotUsed(t *testing.T) {
	if !othersExist() {
		return // root has no other user here who could mount one
	}
	theirs, ours := t.TempDir(), t.TempDir()
	disk := serveDiskOf(t, 65533, theirs)
	must(t, os.Symlink(ours, filepath.Join(theirs, "link")))
	target := openedTarget(t, t.TempDir())
	if err := updateError(t, target, file(filepath.Join(theirs, "link", "a"), "x\n")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
	wantAbsent(t, filepath.Join(ours, "a"))
	secret := file(filepath.Join(theirs, "a"), "x\n", withMode(0o600))
	if err := updateError(t, target, secret); !strings.Contains(err.Error(), "another user has mounted") {
		t.Errorf("error %v", err)
	}
	wantAbsent(t, secret.Path)
	disk.fail(fuseStatfs)
	if err := updateError(t, target, secret); !strings.Contains(err.Error(), "another user has mounted") {
		t.Errorf("of a disk that does not say what it is: error %v", err)
	}

	roots := t.TempDir()
	serveDisk(t, roots)
	must(t, os.Symlink(ours, filepath.Join(roots, "link")))
	mustUpdate(t, target, file(filepath.Join(roots, "link", "a"), "x\n"), true)
}

func TestWhoServesADisk(t *testing.T) {
	const mounts = "36 35 0:50 / /a rw,nosuid shared:1 - fuse.sshfs b: rw,user_id=0,group_id=0\n" +
		"37 35 0:51 / /b rw - fuse.sshfs b: rw,user_id=1000,group_id=0,allow_other\n38 35 0:52 / /c rw - virtiofs c rw\nmistake\n" +
		"39 35 0:53 / /d rw - fuse x\vuser_id=0 rw,user_id=1000\n40 35 0:54 / /e rw - fuse.x\u00a0user_id=0 y rw,user_id=1000\n" +
		"41 35 0:55 / /f rw - fuse x\\040user_id=0\u0085- rw,user_id=1000\n42 35 0:56 / /g rw - fuse x rw,user_id=0,user_id=1000\n" +
		"43 35 0:57 / /h rw - fuse x y rw,user_id=0\n"
	for minor, want := range map[uint32]uint32{50: 0, 51: 1000, 52: 0, 53: 1000, 54: 1000, 55: 1000, 56: unknown, 57: unknown} {
		if user, found := mounter(mounts, ofDevice(unix.Mkdev(0, minor))); user != want || !found {
			t.Errorf("0:%d is of user %d, %v, expected %d", minor, user, found, want)
		}
	}
	if user, found := mounter(mounts, ofDevice(unix.Mkdev(0, 58))); found {
		t.Errorf("one that is not mounted is of user %d", user)
	}
}

// A user may mount one on a file that belongs to that user, in a directory of root. It keeps no other files of the directory from being applied.
func TestADiskThatHangsOnAFileConcernsOnlyThatFile(t *testing.T) {
	if !othersExist() {
		return // root has no other user here who could mount one
	}
	dir := t.TempDir()
	theirs, ours := file(filepath.Join(dir, "a"), "x"), file(filepath.Join(dir, "b"), "x")
	target := openedTarget(t, t.TempDir())
	mustUpdate(t, target, theirs, true)
	disk := serveDiskOf(t, 65533, theirs.Path)
	disk.hang(fuseGetattr, fuseOpen, fuseRead, fuseStatfs)
	if err := updateError(t, target, theirs); !strings.Contains(err.Error(), "a file system of user 65533 is mounted on it") {
		t.Errorf("error %v", err)
	}
	mustUpdate(t, target, ours, true)
	for _, err := range target.Observe(t.Context()) {
		if err != nil && !strings.Contains(err.Error(), "is mounted on it") {
			t.Error(err)
		}
	}
	mustUpdate(t, target, file(ours.Path, "y"), true)
	disk.thaw()
}

// The kernel sends no notification when a file system is mounted on a file, which cannot be looked at then.
func TestADiskThatIsMountedOnAFileIsReported(t *testing.T) {
	if !othersExist() {
		return // root has no other user here who could mount one
	}
	row := file(filepath.Join(t.TempDir(), "a"), "x")
	l := newLive(t, row)
	l.settled()
	serveDiskOf(t, 65533, row.Path)
	becomes := func(what string, is func(reconciler.Status) bool) {
		t.Helper()
		eventually(t, what, func() error {
			got, _, _ := l.files.Get(l.db.ReadTxn(), ByKey.Query(row.Key()))
			if !is(got.Status) {
				return fmt.Errorf("status %v", got.Status)
			}
			return nil
		})
	}
	becomes("the row while it is mounted", func(s reconciler.Status) bool {
		return s.Err() != nil && strings.Contains(s.Err().Error(), "a file system of user 65533 is mounted on it")
	})
	must(t, unix.Unmount(row.Path, unix.MNT_DETACH))
	becomes("the row after it is unmounted", func(s reconciler.Status) bool { return s.Kind() == reconciler.Done })
}
