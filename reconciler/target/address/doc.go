// Package address is the built-in target for addresses of network devices.
//
// Each address is recorded in the state directory, with the index of its device, before
// it is added. An address that was there before is left when its row is deleted, and as it
// is while there is a row: one that says otherwise is in error. With Adopt it is ours from
// then on. When a device was made again under its old name, its old records claim nothing.
//
// Where the kernel has room for it, since Linux 5.18, addresses also carry protocol 79
// ([Protocol]). One with this mark and without a record, as after the loss of the state
// directory, becomes ours again with a row for it. Without a row it stays, and
// [Target.Unrecorded] tells of it.
//
// Lifetimes count down in the kernel. An address is as its row says while the lifetimes that
// it was given are those of the row and have not ended. Update begins them again when half
// of the one that ends first is over, and asks to be called then: so the address stays as
// long as somebody applies the row, and goes by itself after that. Another scope needs the
// address to be removed and added again; in one network of a device all have the same scope.
//
// With the first IPv4 address of a network the kernel removes all others of that
// network, and routes through them. When one of ours goes, the kernel is told to
// spare them, for the moment (promote_secondaries), which is recorded too, so that it
// ends even if the process is killed; where that cannot be set, the addresses are
// added again, but not the routes.
//
// An IPv6 address counts as there while the kernel still looks for duplicates of
// it; if it found one, that is an error.
//
// A [Mirror] keeps a table of the addresses that there are, so that what others change is
// repaired at once: see [Target.Observed]. A target that has one looks there what there is;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// address and match the kernel's error numbers; a device that does not exist
// matches syscall.ENODEV.
package address
