// Package link is the built-in target for network links: it creates bridges, veth
// pairs and tun devices, and sets attributes of links that exist.
//
// A link with a type is created. The kernel accepts an alias only in a second call, so the
// link is first recorded in the state directory with a hardware address of our choice. This
// tells it apart from links of others, whenever the process dies. Once the link exists, its
// index is recorded and identifies it from then on, even if its alias changes. The hardware
// address that the row asks for is set after the alias. A tun has no hardware address; it
// disappears with the process until it has the alias.
//
// If others made a link of that name, the row is in error, unless it says to adopt
// the link. An adopted link is recorded and given the alias, and is ours from then
// on. Its type, and the other end of a veth, must match the row.
// Deleting the row deletes the link, and the other end of a veth with it.
// A link of ours whose type or peer has become wrong is recreated, if a link like the new one can be created.
//
// A link without a type must exist; until then its row is in error. The previous values of
// its attributes are recorded, and restored when the row is deleted or no longer sets
// them; the link is never deleted. If the link is recreated under its old name, the old
// record is void. If it was renamed, it is restored under its new name when another link
// has its name or the row is deleted.
//
// A port is in error while its bridge does not exist. [Needs] makes it wait instead.
//
// A link that has our alias but no record, for example because the state directory was lost,
// is left alone like a link of others; [Target.Unrecorded] reports it.
//
// A [Mirror] keeps a table of the existing links, so that changes by others are
// repaired immediately: see [Target.Observed]. A target with a mirror looks up existing links in
// that table; without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// link and match the kernel's error numbers: syscall.ENODEV if the link does not exist. The
// error for a link that others made matches ErrForeign.
package link
