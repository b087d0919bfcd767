// Package ownership keeps records of what targets have written, for objects on
// which the kernel has no room for a mark.
//
// A target puts a record into its [Records] before it touches the kernel and
// removes it when the object is gone. So after a crash at any moment everything
// that may be ours has a record; what a record says must still be compared with
// what is there.
//
// Records are bound to the boot of the machine and to the network namespace
// they were written in, because the objects do not outlive either: others are
// void, claim nothing, and are removed when the records are opened. For the same
// reason they need not be synced to the disk. So each network namespace needs a
// state directory of its own; records of another one of this boot are not
// dropped without a warning. Records of what outlives the boot are different: see
// [NewLastingRecords].
//
// Each record is a small JSON file below the state directory,
// kind/escaped-key.json, written beside and renamed into place. A file that
// cannot be read as a record is set aside under a name ending in ".corrupt" and
// logged with the reason; it is never fatal and never thrown away.
//
// Whoever writes records says what is removed and restored: the state directory
// must belong to the user of the process and must not be writable for everyone.
//
// A store can be opened to be read only, beside the process that it belongs to: then nothing
// is written, whatever is found.
//
// All types are safe for concurrent use. A state directory belongs to one process
// at a time.
package ownership
