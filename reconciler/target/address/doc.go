// Package address is the built-in target for addresses of network devices.
//
// The kernel has no mark for addresses, so each is recorded in the state
// directory, with the index of its device, before it is added. An address that
// was there before is taken over, and left when its row is deleted. When a device
// was made again under its old name, its old records claim nothing.
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
// repaired at once: see [Observed]. A target that has one looks there what there is;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// address and match the kernel's error numbers; a device that does not exist
// matches syscall.ENODEV.
package address
