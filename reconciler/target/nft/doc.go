// Package nft is the built-in target for tables of nftables: one row is one table with
// its sets, chains and rules.
//
// A table is replaced as a whole, in one transaction: packets see the old table or the
// new one. The counters of its rules begin at zero then; a table that is right is not
// touched, by a new process either.
//
// What is ours: tables whose comment, which the kernel keeps in the user data of
// the table and nft(8) shows, is "statehive" and a digest of the content that we made.
// A table without that mark which has the key of a row is left alone; the row is in
// error and says so. With [Table.Adopt] it is replaced, and is ours from then on. It is
// not restored when the row goes. A ruleset that was saved with nft(8) and loaded again
// has the mark, too.
//
// The digest covers everything that decides about packets, and is computed in the same
// way of what a row asks for and of what the kernel tells: flags of the table, chains
// with hook, type, priority and policy, rules in their order, sets with their elements.
// It does not cover what packets change: counters, and when elements expire.
//
// A [Mirror] listens to the kernel. What our own transactions changed is known to be as
// the row says. After a change that somebody else made to a table of ours, that table
// alone is read again and its digest compared. So any change is repaired at once, and
// one that was undone, or that of another table, is not taken for drift. Tables of
// others are not read. A target without a mirror asks the kernel each time.
//
// Interfaces are matched by name (iifname and oifname of nft), not by index: a rule may
// name a link that comes later, or is made again. So tables wait for no other rows.
//
// The mark needs Linux 5.10. A transaction is one message, whose size the kernel limits
// to twice the sysctl net.core.wmem_max for a process that is not the machine's
// administrator, as in the sandbox. A row whose table is larger is in error and says
// what to set.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the table and
// match the kernel's error numbers; a table that others hold matches ErrForeign.
package nft
