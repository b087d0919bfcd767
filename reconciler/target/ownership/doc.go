// Package ownership keeps records of what targets have made, for objects that have
// no room for a mark in the kernel.
//
// A target puts a record into its [Records] before it touches the kernel and
// removes it when the object is gone. So after a crash at any moment every object
// that may be ours has a record. A record must still be compared with the existing
// object.
//
// Records are bound to the boot of the machine and to the network namespace
// in which they were written, because the objects do not outlive either. Records of another
// boot or namespace are void, and are removed when the records are opened; for those of
// another namespace in the same boot there is a warning. So each network namespace needs a
// state directory of its own. Records need not be synced to the disk. Records of objects
// that outlive the boot are different: see [NewLastingRecords].
//
// Each record is a small JSON file below the state directory,
// kind/escaped-key.json, which is written atomically, with a checksum that also covers the kind.
// A file that cannot be read as a record, because it is damaged, of another kind or key, larger than
// 16 MiB, or such that another user may have written it, is renamed to a name ending in ".corrupt",
// and the reason is logged; it is never fatal and never deleted.
//
// Records decide what is removed and restored. So nobody but root and the user of the process
// may be able to write to the state directory, to what is in it, or to the directories above.
// The checksum detects damage, not forgery: whoever can write to the directory as that user can
// cause anything to be restored, also by bringing back earlier records of the same boot.
// A directory of records that is replaced while the process runs is not written to any more.
//
// A store can be opened read-only while another process owns it. Then nothing
// is written in any case.
//
// All types are safe for concurrent use. A state directory belongs to one process
// at a time.
package ownership
