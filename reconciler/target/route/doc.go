// Package route is the built-in target for IPv4 and IPv6 routes.
//
// Routes that it makes carry protocol 79 ([Protocol]): those are ours, in all
// tables, and no others. A route of another protocol that has the key of a row is
// left alone; the row is in error and says who holds it. With Adopt the row takes its
// place, and of all others with the key, and the route is ours from then on.
//
// The key of a route is its destination (with the family), table and metric.
// IPv6 routes have metric 1024 when a row gives none, as in the kernel.
//
// [DependsOn] says which other rows a route needs.
//
// A [Mirror] keeps a table of the routes that there are, so that what others change is
// repaired at once: see [Observed]. A target that has one looks there what there is,
// and asks the kernel only about keys that somebody else holds; without one it asks
// each time. Routes are made with NLM_F_EXCL. The kernel's own replacement is not
// used, because it may replace the route of another protocol: in IPv4 the new route is
// appended and the old one removed. Of IPv6 routes that differ in their gateways alone
// these are added and removed one by one, so that there is a route all the time; of others
// the old one goes first, and comes back if the kernel refuses the new one. Only what a row
// adopts is replaced by the kernel in IPv6.
//
// In IPv6 others can add next hops to a route of ours. Such a next hop is left alone, and
// the row is in error, unless it adopts. A next hop whose link is down, which the kernel
// does not use, is a difference: the row is in error until the link is up.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the
// route and match the kernel's error numbers; a device that does not exist
// matches syscall.ENODEV, a route that others hold ErrForeign.
package route
