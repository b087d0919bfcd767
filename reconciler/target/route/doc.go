// Package route is the built-in target for IPv4 and IPv6 routes.
//
// Routes that it makes carry protocol 79 ([Protocol]): all routes with that protocol, in
// all tables, are ours, and no others. A route of another protocol that has the key of a
// row is left alone; the row is in error and says whose route it is. With Adopt the row's
// route replaces all others with the key, and is ours from then on.
//
// The key of a route is its destination (with the family), table and metric.
// IPv6 routes have metric 1024 when a row gives none, as in the kernel.
//
// [DependsOn] says which other rows a route needs.
//
// A [Mirror] keeps a table of the routes of ours that exist, so that changes by others are
// repaired at once: see [Observed]. A target with a mirror looks routes up there,
// and asks the kernel only about keys that somebody else holds; without one it asks
// each time. Routes are made with NLM_F_EXCL. NLM_F_REPLACE is not
// used, because it may replace the route of another protocol: in IPv4 the new route is
// appended and the old one removed. If an IPv6 route only differs in its gateways,
// these are added and removed one by one, so that there is a route all the time; otherwise
// the old route is removed first, and added again if the kernel refuses the new one. Only
// an IPv6 route that a row adopts is replaced with NLM_F_REPLACE.
//
// In IPv6 others can add next hops to a route of ours. Such a next hop is left alone, and
// the row is in error, unless it has Adopt. A next hop whose link is down, which the kernel
// does not use, counts as a difference: the row is in error until the link is up.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// route and match the kernel's error numbers: syscall.ENODEV if a device does not
// exist. The error for a key that somebody else's route has matches ErrForeign.
package route
