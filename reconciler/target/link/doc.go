// Package link is the built-in target for network links: it creates bridges, veth
// pairs and tun devices, and sets attributes of links that exist.
//
// A link with a type is created. It is recorded in the state directory first,
// with the hardware address it is to have, because the kernel takes an alias only
// in a second call: so the link can be told from others' whenever the process
// dies. The hardware address of a row is given to it after the alias. A tun has no
// hardware address; it is made such that it goes with the process until it has the
// alias. A link of that name that others made is not taken over: the row is in
// error, unless it says to adopt what is there. Then the link is recorded and given
// the alias, and is ours from then on. Its type must be that of the row, and so must
// the other end of a veth.
// Deleting the row deletes the link; with one end of a veth the other goes.
// A link of ours that has become of the wrong type or has the wrong peer is made
// again.
//
// A link without a type must exist; until then its row is in error. What its
// attributes were is recorded and restored when the row is deleted, or leaves them
// alone again; the link is never deleted. When it was made again under its old name,
// the old record claims nothing.
//
// A port is in error while its bridge does not exist. [Needs] has it wait instead.
//
// What has our alias and no record, as after a state directory was lost, is left alone
// like a link of others; [Target.Unrecorded] tells of it.
//
// A [Mirror] keeps a table of the links that exist, so that changes by others are
// repaired at once: see [Target.Observed]. A target with a mirror looks up there what exists;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// link and match the kernel's error numbers; a link that does not exist matches
// syscall.ENODEV, one that others made ErrForeign.
package link
