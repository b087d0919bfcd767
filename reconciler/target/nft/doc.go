// Package nft is the built-in target for tables of nftables: one row is one table with
// its sets, chains and rules.
//
// A table is replaced as a whole, in one transaction: packets see the old table or the
// new one. The counters of its rules start from zero then. A table that is as the row says
// is not touched, not by a new process either.
//
// What is ours: tables whose comment, which the kernel keeps in the user data of
// the table and nft(8) shows, is "statehive" and a digest of the content that we made.
// A table without that mark which has the key of a row is left alone; the row is in
// error and says so. With [Table.Adopt] it is replaced, and is ours from then on. It is
// not restored when the row is deleted. A ruleset that was saved with nft(8) and loaded again
// has the mark, too.
//
// The digest covers everything that decides about packets, and is computed in the same
// way from a row and from what the kernel has: flags of the table, chains
// with hook, type, priority and policy, rules in their order, sets with their elements.
// It does not cover what packets change: counters, and when elements expire.
//
// A [Mirror] follows the kernel's notifications. Those of our own transactions need no check.
// After a change that somebody else made to a table of ours, only that table
// is read again and its digest compared. So any change is repaired at once, and
// a change that was undone, or that of another table, is not taken for drift. Tables of
// others are not read. A target without a mirror asks the kernel each time.
//
// Interfaces are matched by name (iifname and oifname of nft), not by index: a rule may
// name a link that does not exist yet, or is made again. So tables wait for no other rows.
//
// The mark needs Linux 5.10. A transaction is one message, whose size the kernel limits
// to twice the sysctl net.core.wmem_max for a process that is not root of the
// machine, as in the sandbox. A row whose table is larger is in error and says
// what to set.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the table and
// match the kernel's error numbers; the error for somebody else's table matches ErrForeign.
package nft
