// Package address is the built-in target for addresses of network devices.
//
// Each address is recorded in the state directory, with the index of its device, before
// it is added. An address that existed before is left as it is, also when its row is
// deleted; a row that wants it to be different is in error. With Adopt the address is ours
// from then on. When a device was made again under its old name, its old records are void.
//
// Where the kernel has room for it, since Linux 5.18, addresses also carry protocol 79
// ([Protocol]). An address with this mark and without a record, as after the loss of the
// state directory, becomes ours again when there is a row for it. Without a row it stays,
// and [Target.Unrecorded] reports it.
//
// Lifetimes count down in the kernel. An address is in sync while the lifetimes that
// it was given are those of the row and have not expired. Update renews them when half
// of the shorter one has passed, and asks to be called then: so the address stays as
// long as somebody applies the row, and expires after that. To change its scope, an address
// has to be removed and added again; in one network of a device all have the same scope.
//
// With the first IPv4 address of a network the kernel removes all others of that
// network, and routes through them. When one of ours is removed, the kernel is told to
// keep the others (promote_secondaries). That setting is recorded, too, so that it is
// reset even if the process is killed; where it cannot be set, the addresses are
// added again, but not the routes.
//
// An IPv6 address counts as present while the kernel still looks for duplicates of
// it. If it finds one, that is an error.
//
// A [Mirror] keeps a table of the addresses that there are, so that what others change is
// repaired at once: see [Target.Observed]. A target that has one looks there what there is;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// address and match the kernel's error numbers; a device that does not exist
// matches syscall.ENODEV.
package address
