// Package neighbor is the built-in target for permanent neighbor entries of network
// devices: which link-layer address belongs to an IP address.
//
// The key of a neighbor is its device and its IP address. Entries that the target creates
// are permanent and carry protocol 79; these entries are ours, and no others. Linux 5.2 or
// newer is needed. An entry that the kernel has learned, or failed to learn, belongs to nobody
// and is replaced. An entry that others have made permanent, or that a routing daemon has
// added (extern_learn), is left alone; the row is in error and names the owner. If the row
// adopts, the entry is changed to match the row and becomes ours. A permanent entry of
// ours that somebody changes with ip(8) keeps our mark and is repaired.
//
// Devices are found by name, and the kernel identifies entries by the index of the
// device. Entries vanish with their device, and also when it is set down or gets another
// hardware address; the kernel announces each. It keeps no neighbors of the loopback device,
// of point-to-point devices and of devices without link-layer addresses.
//
// A [Mirror] keeps a table of the entries that somebody made, so that changes by
// others are repaired immediately: see [Observed]. Entries that the kernel learns by itself,
// which change all the time, are not in the table. If somebody changes only the protocol
// of an entry of ours, the kernel does not announce it; the change is found when the table
// is listed again, as for each Observe. A target with a mirror looks up entries in that table,
// and asks the kernel only about entries that it is about to replace or remove; without a
// mirror it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the neighbor
// and match the kernel's error numbers: syscall.ENODEV if a device does not exist. The
// error for a key held by somebody else's entry matches ErrForeign.
package neighbor
