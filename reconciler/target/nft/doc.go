// Package nft is the built-in target for nftables tables: one row is one table with
// its sets, chains and rules.
//
// A table is replaced as a whole, in one transaction: packets see either the old table or the
// new one. The counters of its rules then start from zero. A table that matches its row
// is not touched, even after the process was restarted.
//
// A table is ours if its comment is "statehive" followed by a digest of its key and one of the content
// that we wrote. The kernel keeps the comment in the user data of the table, and nft(8) shows it.
// A table without that mark that has the key of a row is left alone; the row is in error.
// With [Table.Adopt] the table is replaced, and is ours from then on. It is not restored
// when the row is deleted. A ruleset that was saved with nft(8) and loaded again keeps
// the mark. A copy of a table under another name is not ours.
//
// The digest is computed in the same way from a row and from the kernel's table. It covers
// everything that affects packets: flags of the table, chains with hook, type, priority and
// policy, rules in their order, sets with their elements. It does not cover state that packets
// change: counters and the expiry of elements.
//
// A [Mirror] follows the kernel's notifications. Those of our own transactions need no check.
// After somebody else has changed a table of ours, only that table is read again and its
// digest compared. So any change is repaired immediately, and a change that was undone, or a
// change of another table, does not count as drift. Tables of others are not read. A target
// without a mirror asks the kernel each time.
//
// Interfaces are matched by name (iifname and oifname of nft), not by index: a rule may
// name a link that does not exist yet, or is recreated. So tables do not wait for other rows.
//
// The mark needs Linux 5.10. A transaction is one message, whose size the kernel limits
// to twice the sysctl net.core.wmem_max for a process that is not root of the
// machine, as in the sandbox. A row whose table is larger is in error, and the error names
// the setting.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the table and
// match the kernel's error numbers; the error for somebody else's table matches ErrForeign.
package nft
