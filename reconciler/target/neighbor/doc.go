// Package neighbor is the built-in target for permanent neighbor entries of network
// devices: which link-layer address belongs to an IP address.
//
// The key of a neighbor is its device and its IP address. Entries that the target makes
// are permanent and carry protocol 79: those are ours, and no others. Linux 5.2 or newer is
// needed. An entry that the kernel has learned, or failed to learn, belongs to nobody and is
// replaced. One that others have made permanent, or that a routing daemon has added
// (extern_learn), is left alone, and the row is in error and says whose it is. If the row
// adopts, the entry is changed to what the row says and becomes ours. A permanent entry of
// ours that somebody changes with ip(8) keeps our mark and is repaired.
//
// Devices are found by name, and the kernel identifies entries by the index of the
// device. Entries vanish with their device, and also when it is set down or gets another
// hardware address; the kernel announces each. It keeps no neighbors of the loopback device,
// of point-to-point devices and of devices without link-layer addresses.
//
// A [Mirror] keeps a table of the entries that somebody made, so that changes by
// others are repaired at once: see [Observed]. Entries that the kernel learns by itself,
// which change all the time, are not in it. When somebody changes nothing but the protocol
// of an entry of ours, the kernel does not announce it: that is found when
// the table is listed again, as for each Observe. A target with a mirror looks up there what
// exists, and asks the kernel only about entries that it is about to replace or remove;
// without one it asks each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the neighbor
// and match the kernel's error numbers: syscall.ENODEV if a device does not exist. The
// error for a key that somebody else's entry has matches ErrForeign.
package neighbor
