// Package sysctl is the built-in target for kernel parameters below /proc/sys.
//
// A parameter is taken over: its original value is recorded in the state
// directory, and restored when the row is deleted. The parameters with records are
// ours. The kernel changes some parameters along with others, for example those of
// all devices with net.ipv6.conf.all.forwarding. If a row for such a parameter is
// first applied after that change, the changed value is recorded as the original.
//
// The record of a parameter that the kernel copies from that of all devices, such as forwarding, also has the value of
// the latter. If that is another one when the row is deleted, the parameter gets that value instead: without the row,
// it would have it.
//
// The record of a device's parameter has the index of the device. It is void if that
// device is gone, even if there is another one of its name. If the device was renamed,
// its value is restored under the new name.
//
// The kernel does not announce changes of parameters. A [Watcher] reads them every ten seconds
// and maintains a table of their values: see [Target.Observed]. The kernel sets parameters to
// their defaults when a device is made again, and changes some along with those of "all" and
// "default". To have these set at once, a module makes their rows run when links change, see
// [ByDevice], and with [Target.Related].
//
// /proc/sys/net follows the network namespace of the calling thread: the whole
// process must live in one.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// sysctl and match those of the file system (fs.ErrNotExist, syscall.EINVAL).
package sysctl
