package trusted

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// other is a user who is not trusted by root.
const other = 65533

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// tree makes a directory of root's, with a file "good".
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dir")
	must(t, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "good"), []byte("content"), 0o644), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	return dir
}

func read(path string, p Policy) (string, error) {
	f, err := Open(path, p)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	return string(data), err
}

func TestWhatOthersMayHaveMadeIsNotOpened(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		path  string // default: good
		want  string // in the error; empty: it is opened
	}{
		"as it should be":         {spoil: func(*testing.T, string) {}},
		"a file of others":        {spoil: func(t *testing.T, dir string) { must(t, os.Chown(dir+"/good", other, other)) }, want: "/dir/good belongs to uid 65533, who may write to it: if what it holds is right, run chown root"},
		"a group may write":       {spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/good", 0o664)) }, want: "/dir/good can be written to by others (mode -rw-rw-r--): if what it holds is right, run chmod go-w"},
		"all may write":           {spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/good", 0o646)) }, want: "can be written to by others"},
		"a directory of others":   {spoil: func(t *testing.T, dir string) { must(t, os.Chown(dir, other, other)) }, want: "/dir belongs to uid 65533"},
		"a directory for all":     {spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777)) }, want: "/dir can be written to by others (mode drwxrwxrwx)"},
		"a sticky directory":      {spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777|fs.ModeSticky)) }},
		"the parent is for all":   {spoil: func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Dir(dir), 0o777)) }, want: "can be written to by others"},
		"the parent is of others": {spoil: func(t *testing.T, dir string) { must(t, os.Chown(filepath.Dir(dir), other, 0)) }, want: "belongs to uid 65533"},
		"a link of others": {
			spoil: func(t *testing.T, dir string) {
				must(t, os.Symlink("good", dir+"/link"), os.Lchown(dir+"/link", other, 0))
			},
			path: "link", want: "/dir/link belongs to uid 65533",
		},
		"a link through a directory of others": {
			spoil: func(t *testing.T, dir string) {
				must(t, os.Mkdir(dir+"/theirs", 0o755), os.Chown(dir+"/theirs", other, 0), os.Symlink("theirs/../good", dir+"/link"))
			},
			path: "link", want: "/dir/theirs belongs to uid 65533",
		},
		"links inside": {
			spoil: func(t *testing.T, dir string) {
				must(t, os.Mkdir(dir+"/..2026", 0o755), os.Rename(dir+"/good", dir+"/..2026/good"), os.Symlink("..2026", dir+"/..data"), os.Symlink("..data/good", dir+"/good"))
			},
		},
		"an absolute link inside": {spoil: func(t *testing.T, dir string) { must(t, os.Symlink(dir+"/good", dir+"/link")) }, path: "link"},
		"a link out":              {spoil: func(t *testing.T, dir string) { must(t, os.Symlink("/etc/passwd", dir+"/link")) }, path: "link", want: "a symbolic link leads out of"},
		"a relative link out": {spoil: func(t *testing.T, dir string) {
			must(t, os.Symlink(strings.Repeat("../", 40)+"etc/passwd", dir+"/link"))
		}, path: "link", want: "to /etc/passwd: put the file itself there"},
		"a link to itself": {spoil: func(t *testing.T, dir string) { must(t, os.Symlink("link", dir+"/link")) }, path: "link", want: syscall.ELOOP.Error()},
		"a pipe":           {spoil: func(t *testing.T, dir string) { must(t, syscall.Mkfifo(dir+"/pipe", 0o600)) }, path: "pipe", want: ErrSpecial.Error()},
		"a socket": {spoil: func(t *testing.T, dir string) {
			must(t, unix.Mknod(dir+"/sock", unix.S_IFSOCK|0o600, 0))
		}, path: "sock", want: ErrSpecial.Error()},
		"a terminal": {spoil: func(*testing.T, string) {}, path: "/dev/tty", want: ErrSpecial.Error()},
		"a device":   {spoil: func(*testing.T, string) {}, path: "/dev/zero", want: ErrSpecial.Error()},
		"a hard link to a file of others": {spoil: func(t *testing.T, dir string) {
			theirs := filepath.Join(t.TempDir(), "theirs")
			must(t, os.WriteFile(theirs, []byte("secret"), 0o644), os.Chown(theirs, other, other), os.Link(theirs, dir+"/link"))
		}, path: "link", want: "/dir/link belongs to uid 65533"},
		"a directory of others far above, of which a link leads": {spoil: func(t *testing.T, dir string) {
			must(t, os.MkdirAll(dir+"/theirs/a/b", 0o755), os.Rename(dir+"/good", dir+"/theirs/a/b/good"), os.Chown(dir+"/theirs", other, 0), os.Symlink("theirs/a/b/good", dir+"/good"))
		}, want: "/dir/theirs belongs to uid 65533"},
		"a file of the kernel":     {spoil: func(*testing.T, string) {}, path: "/proc/kmsg", want: "a file of the kernel: not a regular file"},
		"a file as a directory":    {spoil: func(*testing.T, string) {}, path: "good/x", want: syscall.ENOTDIR.Error()},
		"nothing":                  {spoil: func(*testing.T, string) {}, path: "none", want: syscall.ENOENT.Error()},
		"through a directory back": {spoil: func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"/sub", 0o755)) }, path: "sub/..//./good"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 && strings.Contains(c.want, "uid") {
				t.Skip("only root can give files to others")
			}
			dir := tree(t)
			c.spoil(t, dir)
			path := filepath.Join(dir, "good")
			policy := Policy{Within: dir}
			switch {
			case filepath.IsAbs(c.path):
				path, policy = c.path, Policy{}
			case c.path != "":
				path = dir + "/" + c.path
			}
			content, err := read(path, policy)
			if c.want == "" && (err != nil || content != "content") {
				t.Errorf("%q, %v", content, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, expected %q", err, c.want)
			}
			var untrusted *Error
			policy.AllowWritable = true
			if _, allowed := read(path, policy); errors.As(err, &untrusted) && allowed != nil {
				t.Errorf("if it is allowed: %v", allowed)
			}
		})
	}
}

func TestADirectoryIsOpenedIfNobodyElseMayWriteToIt(t *testing.T) {
	dir := tree(t)
	f, err := Open(dir, Policy{})
	must(t, err)
	if names, err := f.Readdirnames(-1); err != nil || len(names) != 1 {
		t.Errorf("%q, %v", names, err)
	}
	must(t, f.Close(), os.Chmod(dir, 0o777|fs.ModeSticky))
	var untrusted *Error
	if _, err := Open(dir, Policy{}); !errors.As(err, &untrusted) {
		t.Errorf("a sticky one, in which others may make documents: %v", err)
	}
	must(t, os.Chmod(dir, 0o770))
	for below, want := range map[bool]string{false: "run chmod go-w " + strconv.Quote(dir), true: "run find " + strconv.Quote(dir) + " -type d -exec chmod go-w {} + (with chmod -R go-w "} {
		if _, err := Open(dir, Policy{Below: below}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	must(t, os.WriteFile(dir+"/good", nil, 0o660), os.Chmod(dir+"/good", 0o660), os.Chmod(filepath.Dir(dir), 0o770))
	for _, path := range []string{dir, dir + "/good"} { // an error about a directory above is not about all that is in it
		if _, err := Open(path, Policy{Below: true}); err == nil || strings.Contains(err.Error(), "find") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAUserTrustsRootAndHimself(t *testing.T) {
	dir := tree(t)
	want := map[string]bool{"/etc/passwd": true, dir + "/good": true}
	if os.Getuid() == 0 {
		must(t, os.WriteFile(dir+"/own", []byte("content"), 0o600), os.Chown(dir+"/own", other, other),
			os.WriteFile(dir+"/third", []byte("content"), 0o644), os.Chown(dir+"/third", other-1, other-1))
		want[dir+"/own"], want[dir+"/third"] = true, false
	}
	asOther(t, func() {
		for path, want := range want {
			if _, err := read(path, Policy{}); (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// asOther does something as another user, if this one is root.
func asOther(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread, which is another user, ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, other, other, other); errno != 0 {
			t.Error(errno)
			return
		}
		do()
	}()
	<-done
}

func TestUsersThatAreNotMappedAreNotTheUserNobody(t *testing.T) {
	for users, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"0 100000 65536\n":                   true,
		"0 100000 65534\n":                   false,
		"0 1000 1\n":                         false,
		"0 1000 1\n1 100000 65536\n":         true,
		"0 1000 1\n65534 65534 1\n":          true,
		"not what was expected":              true,
		"":                                   true,
	} {
		if is := maps(users, overflowUID); is != want {
			t.Errorf("%q: %v", users, is)
		}
	}
}

func TestPathsMayBeRelative(t *testing.T) {
	dir := tree(t)
	t.Chdir(filepath.Dir(dir))
	if content, err := read("dir/good", Policy{Within: "dir"}); content != "content" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
}

func TestNothingIsLeftOpen(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	dir := tree(t)
	must(t, os.Symlink("loop", dir+"/loop"), os.Symlink(dir+"/good", dir+"/link"))
	before := count()
	for _, name := range []string{"good", "link", "loop", "none", "good/x", "../dir/good", ""} {
		for range 10 {
			_, _ = read(filepath.Join(dir, name), Policy{Within: dir})
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}
