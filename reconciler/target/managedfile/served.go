package managedfile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// isServedByOthers reports whether a directory is on a file system in user space that another user
// has mounted. Such a file system says of each file whose it is, and can say root. It need not say what it is.
func isServedByOthers(fd int, device uint64, trusts func(uid uint32) bool) bool {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(fd, &disk); err == nil && disk.Type != unix.FUSE_SUPER_MAGIC {
		return false
	}
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return true // it may be
	}
	user, found := mounter(string(mounts), ofDevice(device))
	return !found || !trusts(user)
}

// mountsFile lists the file systems that are mounted.
const mountsFile = "/proc/self/mountinfo"

// unknown is who has mounted what the list does not say of. No user has that number.
const unknown = math.MaxUint32

// ofDevice returns a function that reports whether a line of the list, split into fields, is about a device.
func ofDevice(device uint64) func(fields []string) bool {
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	return func(fields []string) bool { return fields[2] == number }
}

// mounter returns who has mounted something, according to the list of mounts. found is whether it is in the list. Users choose the name and
// the type of a file system in user space; of white space, the kernel escapes only that which separates fields and lines.
func mounter(mounts string, matches func(fields []string) bool) (user uint32, found bool) {
	for line := range strings.Lines(mounts) {
		mount, disk, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		of, about := strings.Split(mount, " "), strings.Split(disk, " ")
		if len(of) < 3 || !matches(of) {
			continue
		}
		if len(about) != 3 && strings.HasPrefix(about[0], "fuse") {
			return unknown, true
		}
		var ids []string
		for option := range strings.SplitSeq(about[len(about)-1], ",") {
			if id, ok := strings.CutPrefix(option, "user_id="); ok {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			return 0, true // only root can mount one without a user, such as virtiofs
		}
		uid, err := strconv.ParseUint(ids[0], 10, 32)
		if err != nil || len(ids) > 1 {
			return unknown, true
		}
		return uint32(uid), true
	}
	return 0, false
}

// openPath opens the path of a file without opening the file, which another user's file system need not answer. It returns an error if such a
// file system is mounted on the file. What is asked of the descriptor is about what was there at that moment.
func (f *folder) openPath(name string) (fd int, err error) {
	fd, err = unix.Openat(f.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := f.checkMount(fd); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// stat returns the attributes of what is at a name in the directory.
func (f *folder) stat(name string) (stat unix.Stat_t, err error) {
	fd, err := f.openPath(name)
	if err == nil {
		err = errors.Join(unix.Fstat(fd, &stat), unix.Close(fd))
	}
	return stat, err
}

// checkMount returns an error if another user has mounted a file system in user space on what is open.
func (f *folder) checkMount(fd int) error {
	var stat unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stat); err != nil {
		return err
	}
	device := unix.Mkdev(stat.Dev_major, stat.Dev_minor)
	told := stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
	isMount := told && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	if !told {
		isMount = device != f.device // or it is on another layer of an overlay, which no mount has
	}
	if !isMount {
		return nil
	}
	matches := ofDevice(device)
	if stat.Mask&unix.STATX_MNT_ID != 0 { // on btrfs, for example, the device of a file is not that of its mount
		id := strconv.FormatUint(stat.Mnt_id, 10)
		matches = func(fields []string) bool { return fields[0] == id }
	}
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return err
	}
	switch user, found := mounter(string(mounts), matches); {
	case found && !f.trusts(user):
		return fmt.Errorf("a file system of user %d is mounted on it: expected it to be unmounted (umount)", user)
	case !found && told:
		return errors.New("a file system was mounted on it until this moment")
	}
	return nil
}
