// Package rule is the built-in target for IPv4 and IPv6 rules of policy routing.
//
// The key of a rule is its family and priority. Rules that the target makes carry
// protocol 79: those are ours, and no others. A rule of another protocol that has the
// key of a row is left alone; the row is in error and says who holds it, unless a rule
// of ours is there too and is as the row says. A row that adopts takes the place of
// whatever has its key.
//
// The kernel takes any number of rules with one priority. A rule that has to change is
// added anew, and then the old ones go, so that there is one all the time. Where there
// are several of ours, one is left.
//
// Devices are told by their names: a rule may be there before its device is, and does
// not match anything until then. Other names that a device has besides do not count.
//
// [DependsOn] says which routes a rule waits for.
//
// A [Mirror] keeps a table of all rules that exist, so that changes by others are
// repaired at once: see [Observed]. A target with a mirror looks up there what exists;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the rule and
// match the kernel's error numbers; a rule that others hold matches ErrForeign.
package rule
