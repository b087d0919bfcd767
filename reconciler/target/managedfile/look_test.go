package managedfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Writes through a mapping of a file do not always change its times.
func TestAFileThatLooksTheSameIsReadAgainAfterAWhile(t *testing.T) {
	v, seen := newVersions(), version{stamp: stamp{Inode: 1, Kind: unix.S_IFREG}, Hash: "1"}
	read := time.Unix(1000, 0)
	v.note("a", seen, read)
	for after, known := range map[time.Duration]bool{0: true, freshFor - 1: true, freshFor: false, time.Hour: false} {
		if is, ok := v.get("a", seen.stamp, read.Add(after)); ok != known || is != seen {
			t.Errorf("after %v: %v, %v", after, is, ok)
		}
	}
	v.note("a", version{stamp: seen.stamp}, read)
	if is, ok := v.get("a", seen.stamp, read); ok {
		t.Errorf("a file that could not be read is known: %v", is)
	}
}

// The owner of a directory could give access to the files in it.
func TestAFileHasNoACLOfItsDirectory(t *testing.T) {
	dir := t.TempDir()
	list := aclOf(7)
	if err := unix.Setxattr(dir, "system.posix_acl_default", list, 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "other")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Getxattr(name, aclAttribute, nil); err != nil {
		t.Fatalf("a file of others has no list: %v", err)
	}
	target := openedTarget(t, t.TempDir())
	for _, content := range []string{"x", "y"} {
		row := File{Path: filepath.Join(dir, "a"), Content: &content, Mode: 0o660}
		mustUpdate(t, target, row, true)
		if _, err := unix.Getxattr(row.Path, aclAttribute, nil); !errors.Is(err, unix.ENODATA) {
			t.Errorf("its list: %v", err)
		}
		wantFile(t, row.Path, content, 0o660)
	}
}

// aclOf returns a list, as the kernel encodes it, that gives the tests' user permissions.
func aclOf(permissions uint16) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, entry := range []struct {
		tag, permissions uint16
		id               uint32
	}{{1, 6, 0xffffffff}, {2, permissions, uint32(os.Getuid())}, {4, 6, 0xffffffff}, {16, 6, 0xffffffff}, {32, 0, 0xffffffff}} { //nolint:gosec // positive
		list = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(list, entry.tag), entry.permissions)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	return list
}

// giveACL gives a file an access control list.
func giveACL(t *testing.T, name string, list []byte) {
	t.Helper()
	if err := unix.Setxattr(name, aclAttribute, list, 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
}

func aclAt(t *testing.T, name string) []byte {
	t.Helper()
	list := make([]byte, 1024)
	n, err := unix.Getxattr(name, aclAttribute, list)
	if err != nil && !errors.Is(err, unix.ENODATA) {
		t.Fatal(err)
	}
	return list[:max(n, 0)]
}

// Others can give a file an access control list that leaves its mode as it is.
func TestAnACLIsDrift(t *testing.T) {
	row := File{Path: filepath.Join(t.TempDir(), "a"), Content: new("x"), Mode: 0o660}
	target := openedTarget(t, t.TempDir())
	mustUpdate(t, target, row, true)
	giveACL(t, row.Path, aclOf(6))
	wantFile(t, row.Path, "x", 0o660)
	changes, err := target.Diff(t.Context(), nil, row)
	if err != nil || len(changes) != 1 || changes[0].Field != "acl" {
		t.Errorf("the plan: %v, %v", changes, err)
	}
	mustUpdate(t, target, row, true)
	wantFile(t, row.Path, "x", 0o660)
	if list := aclAt(t, row.Path); len(list) > 0 {
		t.Errorf("it still has the list %x", list)
	}
	mustUpdate(t, target, row, false)
}

func TestTheACLOfARestoredFileIsBack(t *testing.T) {
	row := File{Path: filepath.Join(t.TempDir(), "a"), Content: new("x"), Mode: 0o600, Adopt: true, OnDelete: Restore}
	if err := os.WriteFile(row.Path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := aclOf(4)
	giveACL(t, row.Path, list)
	target := openedTarget(t, t.TempDir())
	mustUpdate(t, target, row, true)
	if list := aclAt(t, row.Path); len(list) > 0 {
		t.Errorf("it still has the list %x", list)
	}
	if err := target.Delete(t.Context(), nil, row); err != nil {
		t.Fatal(err)
	}
	wantFile(t, row.Path, "before", 0o660)
	if is := aclAt(t, row.Path); !bytes.Equal(is, list) {
		t.Errorf("its list is %x, want %x", is, list)
	}
}

// leased opens a file with a lease, so that nobody else can open it, and overwrites its beginning.
func leased(t *testing.T, name, content string) *os.File {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	}
	if err == nil {
		_, err = file.WriteString(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // it may have been closed
	return file
}

// The owner of a file can have the kernel refuse to open it.
func TestAFileWithALeaseIsReplaced(t *testing.T) {
	row := File{Path: filepath.Join(t.TempDir(), "a"), Content: new("x"), Mode: 0o600}
	target := openedTarget(t, t.TempDir())
	mustUpdate(t, target, row, true)
	leased(t, row.Path, "y")
	mustUpdate(t, target, row, true)
	wantFile(t, row.Path, "x", 0o600)
}

func TestADeletedFileWithALeaseIsReleasedOnceItCanBeRead(t *testing.T) {
	for _, onDelete := range []string{Remove, Restore} {
		row := file(filepath.Join(t.TempDir(), "a"), "ours", adopted, func(f *File) { f.OnDelete = onDelete })
		mustWrite(t, row.Path, "before")
		target := openedTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		lease := leased(t, row.Path, "")
		err := target.Delete(t.Context(), nil, row)
		if err == nil || reconciler.IsTerminal(err) || !strings.Contains(err.Error(), "lease") {
			t.Errorf("onDelete %s: %v", onDelete, err)
		}
		wantRecords(t, target, 1)
		must(t, lease.Close())
		wantFile(t, row.Path, "ours", 0)
		mustDelete(t, target, row)
		if onDelete == Restore {
			wantFile(t, row.Path, "before", 0)
		} else {
			wantAbsent(t, row.Path)
		}
	}
}

// The owner of a file may write to it before it is in its place, and set its modification time back.
func TestAFileThatIsChangedWhileItIsWrittenIsRepaired(t *testing.T) {
	row := file(filepath.Join(t.TempDir(), "a"), "ours\n")
	target := openedTarget(t, t.TempDir())
	target.reached = func(step string) {
		if step != "renamed" {
			return
		}
		info, err := os.Stat(row.Path)
		must(t, err)
		must(t, os.WriteFile(row.Path, []byte("evil\n"), 0o644))
		must(t, os.Chtimes(row.Path, time.Time{}, info.ModTime()))
		<-time.After(2 * tick) // the directory is synced slowly
	}
	_, err := target.Update(t.Context(), statedb.New().ReadTxn(), row)
	must(t, err)
	target.reached = func(string) {}
	mustUpdate(t, target, row, true)
	wantFile(t, row.Path, "ours\n", 0o644)
}
