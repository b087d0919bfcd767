// Package neighbor is the built-in target for permanent neighbors of network devices:
// which address of the link layer an IP address has.
//
// The key of a neighbor is its device and its IP address. Entries that the target makes
// are permanent and carry protocol 79: those are ours, and no others. That takes Linux
// 5.2. An entry that the kernel has learned, or failed to learn, is nobody's and is
// replaced. One that others have made permanent, or that a routing daemon has put there
// (extern_learn), is left alone; the row is in error and says who holds it, unless it
// adopts: then the entry is made as the row says, and ours. A permanent entry of ours
// that somebody changes with the means of ip(8) keeps our mark, and is repaired.
//
// Devices are found by their names, and the kernel knows entries by the index of the
// device: they go with it. They go as well when it is set down or gets another address,
// which the kernel tells of each. It keeps no neighbors of the loopback device, of
// point-to-point devices and of those without addresses of the link layer.
//
// A [Mirror] keeps a table of the entries that are permanent or put there, so that what
// others change is repaired at once: see [Observed]. What the kernel learns by itself,
// which changes all the time, is not in it. That somebody has made an entry of ours his
// own, with another protocol and nothing else, the kernel does not tell: it is found when
// the table is listed again, as for each Observe. A target that has a mirror looks there what
// there is, and asks the kernel only about entries that it is to replace or remove;
// without one it asks each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the neighbor
// and match the kernel's error numbers; a device that does not exist matches
// syscall.ENODEV, an entry that others hold ErrForeign.
package neighbor
