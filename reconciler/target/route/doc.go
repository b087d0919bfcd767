// Package route is the built-in target for IPv4 and IPv6 routes.
//
// Routes that the target creates carry protocol 79 ([Protocol]). All routes with that protocol,
// in all tables, are ours, and no others. A route of another protocol that has the key of a
// row is left alone; the row is in error and names the owner of the route. With Adopt the
// row's route replaces all other routes with the key.
//
// The key of a route is its destination (with the family), table and metric.
// IPv6 routes have metric 1024 when a row gives none, as in the kernel.
//
// [DependsOn] says which other rows a route needs.
//
// A [Mirror] keeps a table of our existing routes, so that changes by others are
// repaired immediately: see [Observed]. A target with a mirror looks up routes in that table,
// and asks the kernel only about keys that somebody else holds; without one it asks the
// kernel each time.
//
// Routes are created with NLM_F_EXCL. NLM_F_REPLACE is not used, because it may replace
// a route of another protocol. An IPv4 route is replaced by appending the new route and
// removing the old one. If an IPv6 route only differs in its gateways, these are added and
// removed one by one, so that a route exists all the time; otherwise the old route is removed
// first, and added again if the kernel refuses the new one. Only an IPv6 route that a row
// adopts is replaced with NLM_F_REPLACE.
//
// Others can add a route with the key of ours that the kernel uses instead: one that comes
// first, or an IPv6 route with a high preference. An IPv6 route of ours that changes comes after
// all others. The row is then in error, unless it has Adopt. To find that out takes a listing of all routes, of which there may
// be millions: a mirror spends about a tenth of its time on it, or does it every 30 seconds if it takes longer, and so does a target when
// rows are updated.
//
// In IPv6 others can add next hops to a route of ours. Such a next hop is left alone, and
// the row is in error, unless it has Adopt. A next hop whose link is down, which the kernel
// does not use, counts as a difference: the row is in error until the link is up.
//
// The kernel chooses the device of a route without one when the route is added. A target with a mirror adds the route again if the network of
// its gateway has moved to another device for certain; if that is in doubt, the route stays and the row is in error.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// route and match the kernel's error numbers: syscall.ENODEV if a device does not
// exist. The error for a key held by somebody else's route matches ErrForeign.
package route
