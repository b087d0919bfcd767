package managedfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/parallel"
	"github.com/statehive/statehive/statedb"
)

// Delete implements reconciler.Target.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row File) error {
	return t.DeleteBatch(ctx, txn, []File{row})[0]
}

// release is the end of managing a file: it is removed, restored, or left as it is.
type release struct {
	key     Key
	orphan  bool     // its row is from Observe: when it was declared, if it was on this machine, is not known
	folder  *folder  // of the file to remove; nil if none is removed
	writing *writing // nil if nothing is restored
	err     error
}

// DeleteBatch implements reconciler.BatchTarget. The newest row decides what becomes of the
// file, or else the record.
func (t *Target) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []File) []error {
	o := t.begin(txn)
	defer o.close()
	releases := make([]*release, len(rows))
	places := make([]string, len(rows))
	records := make([]*record, len(rows))
	for i, row := range rows {
		releases[i] = &release{key: row.Key(), orphan: row.Content == nil && row.Template == nil, err: ctx.Err()}
		if releases[i].err == nil {
			releases[i].err = t.settle(row.Key())
		}
		if rec, known := t.records.Get(row.Path); known {
			records[i], places[i] = &rec, path.Dir(rec.place(row.Path))
		}
	}
	byDirectory(len(rows), func(i int) string { return places[i] }, func(i int) {
		if r, rec := releases[i], records[i]; r.err == nil && rec != nil {
			r.err = o.release(r, cmp.Or(rows[i].OnDelete, rec.OnDelete), *rec)
		}
	})
	var writes []*writing
	var removals []*release
	for _, r := range releases {
		if r.writing != nil {
			writes = append(writes, r.writing)
		}
		if r.folder != nil {
			removals = append(removals, r)
		}
	}
	byDirectory(len(removals), func(i int) *folder { return removals[i].folder }, func(i int) {
		removals[i].err = removals[i].remove(ctx, t)
	})
	t.reached("removed")
	t.writeAll(ctx, writes)
	t.syncReleased(removals)
	for _, r := range releases {
		if r.writing != nil {
			r.err = errors.Join(r.err, r.writing.err)
		}
	}
	t.reached("removed and synced")
	return t.forget(releases)
}

// release decides what is to be done with a file.
func (o *operation) release(r *release, onDelete string, rec record) error {
	if onDelete == Keep || onDelete == Remove && !rec.removable() {
		return nil
	}
	f, err := o.open(rec.place(string(r.key)))
	restore := onDelete == Restore && rec.Existed
	switch {
	case isAbsent(err) && !restore:
		return nil
	case err != nil && restore:
		return fmt.Errorf("restore what was there before: %w", err)
	case err != nil:
		return err
	case o.claims.others(r.key, f.placeOf(r.key)) != "":
		return nil // another row leads there, too
	case restore:
		r.writing, err = o.restore(r, f, rec)
		return err
	}
	is, err := o.lookToRelease(r.key, f)
	if err != nil || !is.regular() {
		return err // others have put something there that is not a regular file
	}
	switch {
	case !rec.leaves(f.identity, is):
		o.target.log.Warn("A file that is no longer declared is left as it is: its content is not what was written last", "file", string(r.key))
		return nil
	case r.orphan && rec.Directory != f.identity:
		o.target.log.Warn("A file that is not declared is left as it is: its directory is not the one that it was written to", "file", string(r.key))
		return nil
	case r.orphan:
		o.target.log.Info("A file that is not declared any more is removed, as its record says", "file", string(r.key))
	}
	r.folder = f
	return nil
}

// lookToRelease returns what is at a path. It is an error if that cannot be read, since only the agent's own content may be removed.
func (o *operation) lookToRelease(key Key, f *folder) (version, error) {
	is, err := o.target.look(key, f)
	if err == nil && is.unread() {
		err = fmt.Errorf("file %s cannot be read to see whether it is the agent's, because of a lease of another process or its permissions: it stays until it can be read", key)
	}
	return is, err
}

// remove removes a file.
func (r *release) remove(ctx context.Context, t *Target) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := change(t, r.folder, func(in *folder) (struct{}, error) {
		return struct{}{}, unix.Unlinkat(in.fd, path.Base(string(r.key)), 0)
	}, nil)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove file %s: %w", r.key, err)
	}
	return nil
}

// restore returns the writing that restores a file to its previous state; nil if it is in that
// state, or if others have replaced it by something that is not a regular file.
func (o *operation) restore(r *release, f *folder, rec record) (*writing, error) {
	key := r.key
	is, err := o.lookToRelease(key, f)
	was := rec.Original
	switch {
	case err != nil:
		return nil, err
	case is.exists() && !is.regular():
		return nil, nil
	case is.regular() && is.Hash != "" && is.Hash == was.Hash && is.attributes() == was.attributes():
		return nil, nil
	case !rec.leaves(f.identity, is), r.orphan && rec.Directory != f.identity:
		return nil, reconciler.Terminal(fmt.Errorf("file %s cannot be restored: it or its directory is not the one that was written last; it stays as it is, and what it held before is kept as %s: "+
			"copy that if you want it, and give the delete up, or declare the file with onDelete %s or %s", key, o.target.records.AttachmentFile(string(key)), Remove, Keep))
	}
	if err := f.checkOriginal(was); err != nil {
		return nil, reconciler.Terminal(fmt.Errorf("file %s cannot be restored: %w; it stays as it is: give the delete up, or declare it with onDelete %s or %s", key, err, Remove, Keep))
	}
	data, err := o.target.records.Attachment(string(key), func(data []byte) bool { return hashOf(data) == was.Hash })
	if err != nil {
		return nil, reconciler.Terminal(fmt.Errorf("file %s cannot be restored: what it held before was not kept, or is damaged (%w); it stays as it is: give the delete up, or declare it with onDelete %s or %s",
			key, err, Remove, Keep))
	}
	return &writing{
		key: key, folder: f, content: string(data), attributes: was.attributes(), absent: !is.exists(),
	}, nil
}

// syncReleased waits until removals have reached the disk, once for each directory.
func (t *Target) syncReleased(removals []*release) {
	lanes := lanesOf(len(removals), func(i int) *folder { return removals[i].folder })
	parallel.Upto(maxLanes, len(lanes), func(lane int) {
		_, err := change(t, removals[lanes[lane][0]].folder, func(in *folder) (struct{}, error) { return struct{}{}, in.sync() }, nil)
		for _, i := range lanes[lane] {
			removals[i].err = errors.Join(removals[i].err, err)
		}
	})
}

// forget removes the records of released files.
func (t *Target) forget(releases []*release) []error {
	outcomes := make([]error, len(releases))
	var done []string
	for _, r := range releases {
		t.claims.release(r.key) // no row declares it, even if the file could not be removed
		if r.err == nil {
			done = append(done, string(r.key))
			t.renderings.note(r.key, nil)
			t.versions.forget(r.key)
		}
	}
	errs := t.records.RemoveAll(done)
	for i, r := range releases {
		outcomes[i] = errors.Join(r.err, errs[string(r.key)])
	}
	return outcomes
}
