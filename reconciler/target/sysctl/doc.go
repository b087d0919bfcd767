// Package sysctl is the built-in target for kernel parameters below /proc/sys.
//
// A parameter is taken over: what it was at first sight is recorded in the state
// directory, and restored when the row is deleted. So what is recorded is what is
// ours. The kernel changes some parameters along with others, as those of all
// devices with net.ipv6.conf.all.forwarding: a row for such a one that is first
// seen after the other was set has that for its original.
//
// A record of a setting of a device claims nothing once the device was made again
// under its old name: what is there then is somebody else's.
//
// /proc/sys/net follows the network namespace of the calling thread: the whole
// process must live in one.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// sysctl and match those of the file system (fs.ErrNotExist, syscall.EINVAL).
package sysctl
