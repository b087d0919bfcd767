// Package address is the built-in target for addresses of network devices.
//
// Each address is recorded in the state directory, with the index of its device, before
// it is added. An address that existed before is never changed, and not removed when its row
// is deleted; a row that differs from it is in error. With Adopt the address is ours from then
// on. If a device is recreated under its old name, its old records are void.
//
// Where the kernel supports it (since Linux 5.18), addresses also carry protocol 79
// ([Protocol]). An address with a record but without this mark is not ours any more: others
// have added it in place of ours. If they have only changed it, which also removes the mark, a target with
// a mirror notices, and restores it. An address with this mark but without a record, for example after the loss of
// the state directory, becomes ours again when there is a row for it. Without a row it
// stays, and [Target.Unrecorded] reports it.
//
// Lifetimes count down in the kernel. An address is in sync while the lifetimes that it was
// given equal the row's and have not expired. Update renews them when half of the shorter
// one has passed, and requests to be called at that time. So the address stays as long as
// somebody applies the row, and expires after that. To change its scope, an address has to
// be removed and added again; all addresses in one network of a device have the same scope.
//
// When the first IPv4 address of a network is removed, the kernel also removes all other
// addresses of that network, and routes through them. While an address of ours is removed,
// the kernel is told to keep the others (promote_secondaries). The original setting is recorded,
// so that it is restored even if the process is killed.
//
// An IPv6 address counts as present while the kernel still looks for duplicates of
// it. If the kernel finds one, the row is in error.
//
// A [Mirror] keeps a table of the existing addresses, so that changes by others are
// repaired immediately: see [Target.Observed]. A target with a mirror looks up addresses in
// that table; without one it asks the kernel each time.
//
// The kernel adds a route to the network of an address along with the address. If others remove
// it while the link is up, or it expires, a [RouteWatcher] notices within ten seconds, and Update has the kernel add it again. A route
// to the same network and through the same device that others have put in its place is left alone.
// So is it if others have added the first IPv4 address of the network, whose route it is, unless the device is a port of a VRF.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// address and match the kernel's error numbers; a device that does not exist
// matches syscall.ENODEV.
package address
