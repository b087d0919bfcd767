// Package link is the built-in target for network links: it creates bridges, veth
// pairs and tun devices, and sets attributes of links that exist.
//
// A link with a type is created. It is recorded in the state directory first,
// with the hardware address it is to have, because the kernel takes an alias only
// in a second call: so the link can be told from others' whenever the process
// dies. Once it is there its index is recorded, by which it is known from then on, whatever
// becomes of its alias. The hardware address of a row is given to it after the alias. A tun has no
// hardware address; it is made such that it goes with the process until it has the
// alias. A link of that name that others made is not taken over: the row is in
// error, unless it says to adopt what is there. Then the link is recorded and given
// the alias, and is ours from then on. Its type must be that of the row, and so must
// the other end of a veth.
// Deleting the row deletes the link, and with one end of a veth the other.
// A link of ours whose type or peer has become wrong is made again.
//
// A link without a type must exist; until then its row is in error. The previous values of
// its attributes are recorded, and restored when the row is deleted or no longer sets
// them; the link is never deleted. When it was made again under its old name,
// the old record is void.
//
// A port is in error while its bridge does not exist. [Needs] has it wait instead.
//
// A link that has our alias and no record, as after the state directory was lost, is left
// alone like a link of others; [Target.Unrecorded] reports it.
//
// A [Mirror] keeps a table of the links that exist, so that changes by others are
// repaired at once: see [Target.Observed]. A target with a mirror looks up there what exists;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// link and match the kernel's error numbers: syscall.ENODEV if the link does not exist. The
// error for a link that others made matches ErrForeign.
package link
