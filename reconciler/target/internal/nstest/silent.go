package nstest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// SilentDisk mounts a file system that does not answer, until the function that it returns is called, or the test ends.
func SilentDisk(t *testing.T, dir string) (end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("silent", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		t.Helper()
		if ended {
			return
		}
		ended = true
		if err := unix.Close(fd); err != nil { // all who wait get an error
			t.Error(err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return end
}
