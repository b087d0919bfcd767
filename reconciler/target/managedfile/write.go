package managedfile

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/parallel"
)

// attributes are the properties of a file besides its content.
type attributes struct {
	Mode         Mode
	Owner, Group uint32
	ACL          string
}

func (v version) attributes() attributes {
	return attributes{v.Mode, v.Owner, v.Group, v.ACL}
}

// writing is a file to be written, and its progress.
type writing struct {
	key     Key
	folder  *folder
	content string
	attributes
	absent bool // there is no file, and none may be replaced
	// record is stored before the file is touched; nil if the present one is sufficient.
	record *record
	fresh  bool // there is no record yet

	temporary string // the name of the temporary file
	made      bool   // it was made, and may not be complete
	is        stamp  // of it
	renamed   bool
	unknown   bool // whether it was or will be renamed is not known
	left      bool // the temporary file may be left over
	err       error
}

// pending is stored before a temporary file is made, so that the next process finds it if this
// one is killed.
type pending struct {
	Key       Key      `json:"key"`
	Directory identity `json:"directory"`
	Temporary string   `json:"temporary"` // the name of the temporary file in it
	// Fresh is whether there was no record of the file before.
	Fresh bool `json:"fresh,omitempty"`
}

// temporaryName returns a name for a temporary file. It is random, so that others who can
// create files in the directory cannot predict it.
func temporaryName() string { return temporaryPrefix + rand.Text() }

// writeAll replaces files, each atomically, and waits until they are on the disk. The outcome
// of each is in its err. Each step is done for all files of a directory before the next one,
// because file systems combine the waits. Directories do not wait for each other.
func (t *Target) writeAll(ctx context.Context, all []*writing) {
	lanes := lanesOf(len(all), func(i int) *folder { return all[i].folder })
	wide := max(1, maxWide/max(1, len(lanes)))
	parallel.Upto(maxLanes, len(lanes), func(lane int) {
		writes := make([]*writing, len(lanes[lane]))
		for i, n := range lanes[lane] {
			writes[i] = all[n]
		}
		if in := writes[0].folder; in.others {
			t.writeInto(ctx, in, writes, 1) // they may block a thread each
		} else {
			t.writeInto(ctx, in, writes, wide)
		}
	})
}

// writeInto does that for the files of one directory, up to wide of them at the same time.
func (t *Target) writeInto(ctx context.Context, in *folder, all []*writing, wide int) {
	full, err := t.removeLeft(in)
	if err != nil {
		failAll(all, err)
		return
	}
	all = slices.DeleteFunc(all, func(w *writing) bool {
		w.err = full[w.key]
		return w.err != nil
	})
	if len(all) == 0 {
		return
	}
	id, err := t.announceWriting(all)
	if err != nil {
		failAll(all, err)
		return
	}
	t.reached("written down")
	parallel.Upto(wide, len(all), func(i int) {
		w := all[i]
		if w.err = ctx.Err(); w.err == nil {
			w.err = w.prepare(t)
		}
	})
	t.reached("temporary")
	t.record(ctx, all)
	t.reached("recorded")
	t.rename(in, all)
	t.reached("renamed")
	t.finish(in, all)
	t.reached("synced")
	t.tidyUp(in, all)
	if err := t.endWriting(id, all); err != nil {
		t.log.Warn("A list of temporary files is left over until the next start", "error", err)
	}
}

func failAll(all []*writing, err error) {
	for _, w := range all {
		if w.err == nil {
			w.err = err
		}
	}
}

// announceWriting stores the names of the temporary files that will be made.
func (t *Target) announceWriting(all []*writing) (id string, err error) {
	for _, w := range all {
		w.temporary = temporaryName()
	}
	id = strconv.FormatUint(t.writings.Add(1), 10)
	return id, t.pending.Put(id, pendingOf(all))
}

// endWriting removes the list of temporary files, apart from those that are left over.
func (t *Target) endWriting(id string, all []*writing) error {
	var left []*writing
	for _, w := range all {
		if w.left {
			left = append(left, w)
		}
	}
	if len(left) == 0 {
		return t.pending.Remove(id)
	}
	err := t.pending.Put(id, pendingOf(left))
	t.left.note(left[0].folder.path, id)
	return err
}

// pendingOf returns the list of the temporary files of writings.
func pendingOf(all []*writing) []pending {
	list := make([]pending, len(all))
	for i, w := range all {
		list[i] = pending{Key: w.key, Directory: w.folder.identity, Temporary: w.temporary, Fresh: w.fresh}
	}
	return list
}

// prepare makes the temporary file, with content and attributes, and waits until it is on the
// disk.
func (w *writing) prepare(t *Target) error {
	type temporary struct {
		made bool
		is   stamp
	}
	done, err := change(t, w.folder, func(in *folder) (temporary, error) {
		file, err := w.create(in)
		if err != nil {
			return temporary{}, fmt.Errorf("make a temporary file in %s: %w", in.path, err)
		}
		is, err := w.fill(file)
		return temporary{true, is}, errors.Join(err, cause(file.Close()))
	}, func(in *folder, late temporary) {
		if late.made {
			_ = unix.Unlinkat(in.fd, w.temporary, 0) // or else it is removed before the next writing
		}
	})
	w.made, w.is, w.left = done.made, done.is, unanswered(err)
	if err != nil {
		return fmt.Errorf("write file %s: %w", w.key, err)
	}
	return nil
}

func (w *writing) create(in *folder) (*os.File, error) {
	fd := -1
	err := ignoringInterrupts(func() (err error) {
		fd, err = unix.Openat(in.fd, w.temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), w.temporary), nil
}

// fill sets the attributes before it writes the content, so that nobody can read it too early,
// and the mode after the owner, because a change of owner clears mode bits. The access control
// list replaces one that the kernel copies from the directory.
func (w *writing) fill(file *os.File) (is stamp, err error) {
	if err := setACL(file, w.ACL); err != nil {
		return is, err
	}
	if err := file.Chown(int(w.Owner), int(w.Group)); err != nil {
		return is, fmt.Errorf("give it to user %d and group %d: %w", w.Owner, w.Group, cause(err))
	}
	if _, err := io.WriteString(file, w.content); err != nil {
		return is, cause(err)
	}
	if err := unix.Fchmod(int(file.Fd()), uint32(w.Mode)); err != nil {
		return is, fmt.Errorf("set its mode to %v: %w", w.Mode, err)
	}
	if err := file.Sync(); err != nil { // before its times are read, because network file systems set them now
		return is, cause(err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return is, err
	}
	if is = stampOf(&stat); is.Mode != w.Mode || is.Owner != w.Owner || is.Group != w.Group {
		return is, fmt.Errorf("the file system made mode %v, user %d and group %d of mode %v, user %d and group %d",
			is.Mode, is.Owner, is.Group, w.Mode, w.Owner, w.Group)
	}
	return is, nil
}

// record stores the records. After that the files may be touched.
func (t *Target) record(ctx context.Context, all []*writing) {
	records := map[string]record{}
	for _, w := range all {
		if w.err != nil || w.record == nil {
			continue
		}
		rec := *w.record
		if rec.Temporary = nil; w.fresh {
			rec.Temporary = new(w.is.temporary())
		}
		records[string(w.key)] = rec
	}
	if ctx.Err() != nil {
		failAll(all, ctx.Err())
		return
	}
	errs := t.records.PutAll(records)
	for _, w := range all {
		if w.err == nil {
			w.err = errs[string(w.key)]
		}
	}
}

// rename renames the temporary files to their final names.
func (t *Target) rename(in *folder, all []*writing) {
	var ready []*writing
	for _, w := range all {
		if w.err == nil {
			ready = append(ready, w)
		}
	}
	if len(ready) == 0 {
		return
	}
	errs, err := change(t, in, func(in *folder) ([]error, error) {
		errs := make([]error, len(ready))
		for i, w := range ready {
			errs[i] = w.renameIn(in)
		}
		return errs, nil
	}, func(in *folder, late []error) {
		for i, err := range late {
			if err != nil {
				_ = unix.Unlinkat(in.fd, ready[i].temporary, 0) // or else it is removed before the next writing
			}
		}
	})
	for i, w := range ready {
		switch {
		case err != nil:
			w.err, w.unknown, w.left = fmt.Errorf("put file %s in place: %w", w.key, err), true, true
		default:
			w.err = errs[i]
			w.renamed = w.err == nil
		}
	}
}

func (w *writing) renameIn(in *folder) error {
	from, to := w.temporary, path.Base(string(w.key))
	rename := func() error { return unix.Renameat(in.fd, from, in.fd, to) }
	if w.absent {
		rename = func() error { return renameNew(in.fd, from, to) }
	}
	err := ignoringInterrupts(rename)
	if errors.Is(err, unix.EEXIST) && w.absent {
		return fmt.Errorf("file %s was made by somebody else at this moment: %w", w.key, err)
	}
	if err != nil {
		return fmt.Errorf("put file %s in place: %w", w.key, err)
	}
	return nil
}

// renameNew renames a file in a directory, and replaces none.
func renameNew(fd int, from, to string) error {
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNew(fd, from, to) // not supported by the file system
	}
	return err
}

// linkNew does the same on file systems that do not support RENAME_NOREPLACE.
func linkNew(fd int, from, to string) error {
	if err := unix.Linkat(fd, from, fd, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(fd, from, 0)
}

// finish waits until the names are on the disk, and notes the new versions.
func (t *Target) finish(in *folder, all []*writing) {
	var renamed []*writing
	for _, w := range all {
		if w.renamed {
			renamed = append(renamed, w)
		}
	}
	if len(renamed) == 0 {
		return
	}
	found, err := change(t, in, func(in *folder) ([]seenVersion, error) {
		unsynced := in.sync()
		found := make([]seenVersion, len(renamed))
		for i, w := range renamed {
			at := time.Now() // before it is read; what was written is not assumed, because the owner may have written to it since
			if _, is, err := read(in, path.Base(string(w.key))); err == nil {
				found[i] = seenVersion{version: is, at: at} // or else it was removed in the meantime: the next look shows that
			}
		}
		return found, unsynced
	}, nil)
	for i, w := range renamed {
		if w.err = err; found == nil {
			continue
		}
		if is := found[i]; is.exists() {
			t.versions.note(w.key, is.version, is.at)
		}
	}
}

// tidyUp removes the temporary files of writings that failed, and then the records of files that
// were not touched. Of those that may yet be renamed it removes neither.
func (t *Target) tidyUp(in *folder, all []*writing) {
	var failed, made []*writing
	for _, w := range all {
		if w.err != nil && !w.renamed && !w.unknown {
			failed = append(failed, w)
			if w.made {
				made = append(made, w)
			}
		}
	}
	answered := t.unlinkTemporary(in, made)
	var untouched []string
	for _, w := range failed {
		if w.fresh && (answered || !w.made) {
			untouched = append(untouched, string(w.key))
			w.fresh = false
		}
	}
	errs := t.records.RemoveAll(untouched)
	for _, w := range failed {
		if err := errs[string(w.key)]; err != nil {
			w.err, w.fresh = errors.Join(w.err, err), true
		}
	}
}

// unlinkTemporary removes temporary files in a directory. If one cannot be removed, it adds to the err why, and sets left. It reports whether
// the directory has answered.
func (t *Target) unlinkTemporary(in *folder, all []*writing) bool {
	if len(all) == 0 {
		return true
	}
	errs, err := t.unlinkAll(in, pendingOf(all))
	for _, w := range all {
		if err := cmp.Or(err, errs[w.temporary]); err != nil {
			w.left, w.err = true, errors.Join(w.err, err)
		}
	}
	return err == nil
}

// unlinkAll removes temporary files from a directory, and returns the errors by their names.
func (t *Target) unlinkAll(in *folder, all []pending) (map[string]error, error) {
	return change(t, in, func(in *folder) (map[string]error, error) {
		errs := map[string]error{}
		for _, p := range all {
			// A directory is not the agent's, but has taken the place of the file.
			if err := unix.Unlinkat(in.fd, p.Temporary, 0); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EISDIR) {
				errs[p.Temporary] = fmt.Errorf("remove temporary file %s: %w", path.Join(in.path, p.Temporary), err)
			}
		}
		return errs, nil
	}, nil)
}
