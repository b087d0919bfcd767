package managedfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// isServedByOthers reports whether a directory is on a file system in user space that another user
// has mounted. Such a file system says of each file whose it is, and can say root.
func isServedByOthers(fd int, device uint64, trusts func(uid uint32) bool) bool {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(fd, &disk); err != nil || disk.Type != unix.FUSE_SUPER_MAGIC {
		return false
	}
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return true // it may be
	}
	user, found := mounter(string(mounts), device)
	return !found || !trusts(user)
}

// mountsFile lists the file systems that are mounted.
const mountsFile = "/proc/self/mountinfo"

// nobody is who has mounted what is not told.
const nobody = 65534

// mounter returns who has mounted a device, according to the list of mounts. found is whether it is in the list. Users choose the name and
// the type of a file system in user space; of white space, the kernel escapes only that which separates fields and lines.
func mounter(mounts string, device uint64) (user uint32, found bool) {
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	for line := range strings.Lines(mounts) {
		mount, disk, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		of, about := strings.Split(mount, " "), strings.Split(disk, " ")
		if len(of) < 3 || of[2] != number {
			continue
		}
		if len(about) != 3 {
			return nobody, true
		}
		var ids []string
		for option := range strings.SplitSeq(about[2], ",") {
			if id, ok := strings.CutPrefix(option, "user_id="); ok {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			return 0, true // only root can mount one without a user, such as virtiofs
		}
		uid, err := strconv.ParseUint(ids[0], 10, 32)
		if err != nil || len(ids) > 1 {
			return nobody, true
		}
		return uint32(uid), true
	}
	return 0, false
}

// checkMount returns an error if another user has mounted a file system in user space on a file. That is asked without asking the file system,
// which need not answer.
func (f *folder) checkMount(name string) error {
	var stat unix.Statx_t
	err := unix.Statx(f.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &stat)
	device := unix.Mkdev(stat.Dev_major, stat.Dev_minor)
	if err != nil || device == f.device {
		return nil //nolint:nilerr // whoever looks at the file says so
	}
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return err
	}
	if user, _ := mounter(string(mounts), device); f.trusts != nil && !f.trusts(user) {
		return fmt.Errorf("user %d has mounted a file system on it: expected none there", user)
	}
	return nil
}
