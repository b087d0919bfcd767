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
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true // it may be
	}
	return isOfOthers(string(mounts), device, trusts)
}

// isOfOthers reports whether the list of mounts does not rule out that another user has mounted a
// device in user space.
func isOfOthers(mounts string, device uint64, trusts func(uid uint32) bool) bool {
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	for line := range strings.Lines(mounts) {
		mount, disk, _ := strings.Cut(line, " - ")
		of, about := strings.Fields(mount), strings.Fields(disk)
		if len(of) < 3 || len(about) < 3 || of[2] != number {
			continue
		}
		for option := range strings.SplitSeq(about[2], ",") {
			if user, ok := strings.CutPrefix(option, "user_id="); ok {
				uid, err := strconv.ParseUint(user, 10, 32)
				return err != nil || !trusts(uint32(uid))
			}
		}
		return false // only root can mount one without a user, such as virtiofs
	}
	return true
}
