package sandbox

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// netSysctls holds the sysctls of the network namespace.
const netSysctls = "/proc/sys/net"

// Setup prepares the sandbox from inside: no mount propagates, a tmpfs lies on the state directory, /proc and /sys are
// read-only except for /proc/sys/net, and the loopback link is up. Call it once, before anything touches the kernel.
//
// Errors: an UnavailableError if the kernel refuses a step; the sandbox must then not be used.
func (i *Inherited) Setup() (Prepared, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return Prepared{}, explain("making mounts private", err)
	}
	if err := mountState(i.stateDir); err != nil {
		return Prepared{}, err
	}
	for _, path := range []string{"/proc", "/sys"} {
		if err := makeReadOnly(path); err != nil {
			return Prepared{}, err
		}
	}
	if err := loopbackUp(); err != nil {
		return Prepared{}, err
	}
	return Prepared{StateDir: i.stateDir, NetSysctls: openNetSysctls()}, nil
}

func mountState(dir string) error {
	if err := unix.Mount("statehive", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64m"); err != nil {
		return explain("mounting a tmpfs on "+dir, err)
	}
	return nil
}

// makeReadOnly makes the mount at path, and all below it, read-only.
func makeReadOnly(path string) error {
	// Without automounts: systemd has one at /proc/sys/fs/binfmt_misc, and would mount the file system outside.
	const flags = unix.AT_RECURSIVE | unix.AT_NO_AUTOMOUNT
	err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if isAny(err, []error{unix.ENOSYS, unix.EPERM}) {
		err = remount(path, readOnly) // a kernel before 5.12, or a container's seccomp filter that does not know the call
	}
	if isAny(err, []error{unix.EINVAL, unix.ENOENT}) && path != "/proc" {
		return nil // nothing is mounted there, as in a chroot without /sys: nothing to protect
	}
	if err != nil {
		return explain("making "+path+" read-only", err)
	}
	return nil
}

// openNetSysctls makes the sysctls of the network namespace writable again.
func openNetSysctls() error {
	if err := unix.Mount(netSysctls, netSysctls, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return netSysctlsError(err)
	}
	if err := remount(netSysctls, writable); err != nil {
		return netSysctlsError(err)
	}
	return nil
}

func netSysctlsError(cause error) error {
	return &UnavailableError{
		Doing:  "making " + netSysctls + " writable",
		Cause:  cause,
		Reason: "it is masked or read-only outside, as in most containers",
		Advice: "sysctl documents will fail; start the container with a writable /proc/sys (privileged, or unmasked)",
	}
}

type access uintptr

const (
	writable access = 0
	readOnly access = unix.MS_RDONLY
)

// remount changes the access to the mount at path, not to mounts below it. In a user namespace the other flags of an
// inherited mount are locked, and the kernel refuses to clear them, so remount reads and keeps them.
func remount(path string, mode access) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return fmt.Errorf("reading the mount flags of %s: %w", path, err)
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|uintptr(mode)|lockedFlags(stat.Flags), "")
}

// lockedFlags translates statfs flags into mount flags, without the read-only flag.
func lockedFlags(statfs int64) uintptr {
	translation := []struct {
		statfs int64
		mount  uintptr
	}{
		{unix.ST_NOSUID, unix.MS_NOSUID},
		{unix.ST_NODEV, unix.MS_NODEV},
		{unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME},
		{unix.ST_NODIRATIME, unix.MS_NODIRATIME},
		{unix.ST_RELATIME, unix.MS_RELATIME},
	}
	var flags uintptr
	for _, flag := range translation {
		if statfs&flag.statfs != 0 {
			flags |= flag.mount
		}
	}
	if statfs&(unix.ST_NOATIME|unix.ST_RELATIME) == 0 {
		flags |= unix.MS_STRICTATIME // no flag means relatime to mount(2), strictatime to statfs(2)
	}
	return flags
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return explain("looking for the loopback link", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return explain("taking the loopback link up", err)
	}
	return nil
}
