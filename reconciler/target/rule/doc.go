// Package rule is the built-in target for IPv4 and IPv6 policy routing rules.
//
// The key of a rule is its family and priority. Rules that the target creates carry
// protocol 79; these rules are ours, and no others. A rule of another protocol that has the
// key of a row is left alone; the row is in error and names the owner of the rule, unless
// a rule of ours that matches the row exists as well. A row that adopts replaces all rules
// with its key.
//
// The kernel accepts any number of rules with one priority. When a rule changes, the new
// one is added before the old ones are removed, so that a rule exists all the time. If there
// are several rules of ours with a key, all but one are removed.
//
// Devices are matched by name: a rule may exist before its device, and does
// not match anything until then. A row that names a device by an alternative name is in error.
//
// [DependsOn] says which routes a rule waits for.
//
// A [Mirror] keeps a table of all existing rules, so that changes by others are
// repaired immediately: see [Observed]. A target with a mirror looks up rules in that table;
// without one it asks the kernel each time.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the rule and
// match the kernel's error numbers; the error for a key held by somebody else's rule
// matches ErrForeign.
package rule
