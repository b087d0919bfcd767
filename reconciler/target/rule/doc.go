// Package rule is the built-in target for IPv4 and IPv6 rules of policy routing.
//
// The key of a rule is its family and priority. Rules that the target makes carry
// protocol 79: those are ours, and no others. A rule of another protocol that has the
// key of a row is left alone; the row is in error and says whose rule it is, unless there is
// also a rule of ours that is as the row says. A row that adopts replaces
// all rules with its key.
//
// The kernel accepts any number of rules with one priority. When a rule changes, the new
// one is added before the old ones are removed, so that there is always one. If there
// are several of ours, one is left.
//
// Devices are matched by name: a rule may exist before its device, and does
// not match anything until then. Alternative names of a device do not count.
//
// [DependsOn] says which routes a rule waits for.
//
// A [Mirror] keeps a table of all rules that exist, so that changes by others are
// repaired at once: see [Observed]. A target with a mirror looks up there what exists;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the rule and
// match the kernel's error numbers; the error for a key that somebody else's
// rule has matches ErrForeign.
package rule
