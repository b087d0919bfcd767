// Package link is the built-in target for network links: it creates bridges and
// veth pairs and sets attributes of links that exist.
//
// A link with a type is created. It is recorded in the state directory first,
// with the hardware address it is to have, because the kernel takes an alias only
// in a second call: so the link can be told from others' whenever the process
// dies. A link of that name that others made is not taken over: the row is in
// error. Deleting the row deletes the link; with one end of a veth the other goes.
// A link of ours that has become of the wrong type or has the wrong peer is made
// again.
//
// A link without a type must exist; until then its row is in error. What its
// attributes were is recorded and restored when the row is deleted; the link is
// never deleted. When it was made again under its old name, the old record claims
// nothing.
//
// A [Mirror] keeps a table of the links that there are, so that what others change is
// repaired at once: see [Target.Observed]. A target that has one looks there what there is;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// link and match the kernel's error numbers; a link that does not exist matches
// syscall.ENODEV, one that others made ErrForeign.
package link
