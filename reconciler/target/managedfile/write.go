package managedfile

import (
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
	err       error
}

// pending is stored before a temporary file is made, so that the next process finds it if this
// one is killed.
type pending struct {
	Key       Key    `json:"key"`
	Directory string `json:"directory"` // without symbolic links
	Temporary string `json:"temporary"` // the name of the temporary file in it
	// Fresh is whether there was no record of the file before.
	Fresh bool `json:"fresh,omitempty"`
}

// temporaryName returns a name for a temporary file. It is random, so that others who can
// create files in the directory cannot predict it.
func temporaryName() string { return temporaryPrefix + rand.Text() }

// writeAll replaces files, each atomically, and waits until they are on the disk. The outcome
// of each is in its err. Each step is done for all files before the next one, because file
// systems combine the waits.
func (t *Target) writeAll(ctx context.Context, all []*writing) {
	if len(all) == 0 {
		return
	}
	id, err := t.announceWriting(all)
	if err != nil {
		failAll(all, err)
		return
	}
	t.reached("written down")
	parallel.Each(len(all), func(i int) {
		w := all[i]
		if w.err = ctx.Err(); w.err == nil {
			w.err = w.prepare(t)
		}
	})
	t.reached("temporary")
	t.record(ctx, all)
	t.reached("recorded")
	for _, w := range all {
		if w.err == nil {
			w.err = w.rename()
		}
	}
	t.reached("renamed")
	t.finish(all)
	t.reached("synced")
	t.tidyUp(all)
	if slices.ContainsFunc(all, func(w *writing) bool { return errors.Is(w.err, errNoAnswer) }) {
		return // the file may be made when this process has ended: the next one removes it
	}
	if err := t.pending.Remove(id); err != nil {
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
	list := make([]pending, len(all))
	for i, w := range all {
		w.temporary = temporaryName()
		list[i] = pending{Key: w.key, Directory: w.folder.path, Temporary: w.temporary, Fresh: w.fresh}
	}
	id = strconv.FormatUint(t.writings.Add(1), 10)
	return id, t.pending.Put(id, list)
}

// prepare makes the temporary file, with content and attributes.
func (w *writing) prepare(t *Target) error {
	file, err := change(t, w.folder, w.create, w.discard)
	if err != nil {
		return fmt.Errorf("write file %s: make a temporary file in %s: %w", w.key, w.folder.path, err)
	}
	w.made = true
	err = w.fill(file)
	if err := errors.Join(err, cause(file.Close())); err != nil {
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

// discard removes a temporary file that was made too late.
func (w *writing) discard(in *folder, file *os.File) {
	if file == nil {
		return
	}
	_ = file.Close()                         // nothing was written to it
	_ = unix.Unlinkat(in.fd, file.Name(), 0) // or else the next process removes it
}

// fill sets the attributes before it writes the content, so that nobody can read it too early,
// and the mode after the owner, because a change of owner clears mode bits. The access control
// list replaces one that the kernel copies from the directory.
func (w *writing) fill(file *os.File) error {
	if err := setACL(file, w.ACL); err != nil {
		return err
	}
	if err := file.Chown(int(w.Owner), int(w.Group)); err != nil {
		return fmt.Errorf("give it to user %d and group %d: %w", w.Owner, w.Group, cause(err))
	}
	if _, err := io.WriteString(file, w.content); err != nil {
		return cause(err)
	}
	if err := unix.Fchmod(int(file.Fd()), uint32(w.Mode)); err != nil {
		return fmt.Errorf("set its mode to %v: %w", w.Mode, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if w.is = stampOf(&stat); w.is.Mode != w.Mode || w.is.Owner != w.Owner || w.is.Group != w.Group {
		return fmt.Errorf("the file system made mode %v, user %d and group %d of mode %v, user %d and group %d",
			w.is.Mode, w.is.Owner, w.is.Group, w.Mode, w.Owner, w.Group)
	}
	return cause(file.Sync())
}

// record stores the records. After that the files may be touched.
func (t *Target) record(ctx context.Context, all []*writing) {
	records := map[string]record{}
	for _, w := range all {
		if w.err == nil && w.record != nil {
			records[string(w.key)] = *w.record
		}
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

// rename renames the temporary file to its final name.
func (w *writing) rename() error {
	from, to := w.temporary, path.Base(string(w.key))
	rename := func() error { return unix.Renameat(w.folder.fd, from, w.folder.fd, to) }
	if w.absent {
		rename = func() error { return renameNew(w.folder.fd, from, to) }
	}
	err := ignoringInterrupts(rename)
	if errors.Is(err, unix.EEXIST) && w.absent {
		return fmt.Errorf("file %s was made by somebody else at this moment: %w", w.key, err)
	}
	if err != nil {
		return fmt.Errorf("put file %s in place: %w", w.key, err)
	}
	w.renamed = true
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

// finish waits until the names are on the disk, once for each directory, and notes the new
// versions.
func (t *Target) finish(all []*writing) {
	var changed []*folder
	for _, w := range all {
		if w.renamed {
			changed = append(changed, w.folder)
		}
	}
	unsynced := syncAll(changed)
	for _, w := range all {
		if !w.renamed {
			continue
		}
		w.err = errors.Join(w.err, unsynced[w.folder])
		var stat unix.Stat_t
		if err := unix.Fstatat(w.folder.fd, path.Base(string(w.key)), &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // it was removed in the meantime: the next look shows that
		}
		if is := stampOf(&stat); is.Inode == w.is.Inode && is.Device == w.is.Device && is.Size == w.is.Size && is.Modified == w.is.Modified {
			t.versions.note(w.key, version{is, hashOf([]byte(w.content)), w.ACL}, time.Now())
		}
	}
}

// tidyUp removes the temporary files of writings that failed.
func (t *Target) tidyUp(all []*writing) {
	var untouched []string
	for _, w := range all {
		if w.renamed || w.err == nil {
			continue
		}
		if err := w.removeTemporary(); err != nil {
			w.err = errors.Join(w.err, err)
		}
		if w.fresh {
			untouched = append(untouched, string(w.key))
		}
	}
	errs := t.records.RemoveAll(untouched)
	for _, w := range all {
		w.err = errors.Join(w.err, errs[string(w.key)])
	}
}

// removeTemporary removes the temporary file, if there is one.
func (w *writing) removeTemporary() error {
	if !w.made {
		return nil
	}
	err := unix.Unlinkat(w.folder.fd, w.temporary, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove temporary file %s: %w", path.Join(w.folder.path, w.temporary), err)
	}
	return nil
}

// recover removes the temporary files of a process that was killed while it wrote. A file that
// had not been renamed yet was not touched: if it had no record before, its record is removed.
func (t *Target) recover(ctx context.Context) error {
	for id, list := range t.pending.All() {
		ok := true
		for _, p := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := t.recoverOne(p); err != nil {
				ok = false
				t.log.Warn("A temporary file may be left over: it is looked for again at the next start", "file", string(p.Key), "error", err)
			}
		}
		if !ok {
			continue
		}
		if err := t.pending.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) recoverOne(p pending) error {
	f, err := t.answers.open(p.Directory)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // nothing was written to it
	var left, file unix.Stat_t
	err = unix.Fstatat(f.fd, p.Temporary, &left, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.Fresh {
		err := unix.Fstatat(f.fd, path.Base(string(p.Key)), &file, unix.AT_SYMLINK_NOFOLLOW)
		if inPlace := err == nil && file.Ino == left.Ino && file.Dev == left.Dev; !inPlace {
			if err := t.records.Remove(string(p.Key)); err != nil {
				return err
			}
		}
	}
	return unix.Unlinkat(f.fd, p.Temporary, 0)
}
