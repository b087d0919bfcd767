package ownership

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Identity is the boot and the network namespace that records are bound to.
type Identity struct {
	Boot  string `json:"boot"`  // the id of the boot
	Netns string `json:"netns"` // the network namespace
}

// CurrentIdentity returns the identity of this boot and of the network namespace
// of the calling thread.
func CurrentIdentity() (Identity, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("read the id of this boot: %w", err)
	}
	netns, err := currentNetns()
	if err != nil {
		return Identity{}, fmt.Errorf("identify the network namespace: %w", err)
	}
	return Identity{Boot: string(bytes.TrimSpace(boot)), Netns: netns}, nil
}

// currentNetns prefers the cookie, which is never used again; inodes may be.
func currentNetns() (string, error) {
	cookie, err := netnsCookie()
	if err == nil {
		return "cookie:" + strconv.FormatUint(cookie, 10), nil
	}
	var stat unix.Stat_t
	if statErr := unix.Stat("/proc/thread-self/ns/net", &stat); statErr != nil {
		return "", errors.Join(err, statErr)
	}
	return "inode:" + strconv.FormatUint(stat.Ino, 10), nil
}

func netnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket: %w", err)
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return cookie, errors.Join(err, unix.Close(fd))
}
