package managedfile

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// leftovers are the lists of temporary files that this process could not remove, because their
// directory did not respond. It is safe for concurrent use.
type leftovers struct {
	mu   sync.Mutex
	byIn map[string][]string // identifiers of lists, by the directory without symbolic links
}

func (t *Target) noteLeft(in *folder, id string) {
	t.left.mu.Lock()
	defer t.left.mu.Unlock()
	t.left.byIn[in.path] = append(t.left.byIn[in.path], id)
}

// removeLeft removes what earlier writings have left over in a directory that responds again.
func (t *Target) removeLeft(in *folder) error {
	t.left.mu.Lock()
	ids := t.left.byIn[in.path]
	delete(t.left.byIn, in.path)
	t.left.mu.Unlock()
	for i, id := range ids {
		list, _ := t.pending.Get(id)
		var names []string
		for _, p := range list {
			names = append(names, p.Temporary)
		}
		err := t.unlinkAll(in, names)
		if err == nil {
			err = t.pending.Remove(id)
		}
		if err != nil {
			for _, id := range ids[i:] {
				t.noteLeft(in, id)
			}
			return err
		}
	}
	return nil
}

// recover removes the temporary files of a process that was killed while it wrote. A file that
// had not been renamed yet was not touched: if it had no record before, its record is removed.
func (t *Target) recover(ctx context.Context) error {
	lists := maps.Collect(t.pending.All())
	var all []pending
	for id, list := range lists {
		if number, err := strconv.ParseUint(id, 10, 64); err == nil && number > t.writings.Load() {
			t.writings.Store(number) // lists that stay are not replaced
		}
		all = append(all, list...)
	}
	errs := make([]error, len(all))
	byDirectory(len(all), func(i int) string { return all[i].Directory }, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			errs[i] = t.recoverOne(all[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	stay := map[string]bool{} // by the name of the temporary file, which is random
	for i, err := range errs {
		if err != nil {
			stay[all[i].Temporary] = true
			t.log.Warn("A temporary file may be left over: it is looked for again at the next start", "file", string(all[i].Key), "error", err)
		}
	}
	for id, list := range lists {
		if slices.ContainsFunc(list, func(p pending) bool { return stay[p.Temporary] }) {
			continue
		}
		if err := t.pending.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

// recoverOne removes the record only after the temporary file: as long as that is there, another
// process's rename of it, which hangs, may yet replace what the record has the original of.
func (t *Target) recoverOne(p pending) error {
	f, err := t.answers.open(p.Directory)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // nothing was written to it
	untouched, err := change(t, f, func(f *folder) (bool, error) {
		left, err := f.stat(p.Temporary)
		if err != nil {
			return false, err
		}
		file, err := f.stat(path.Base(string(p.Key)))
		inPlace := err == nil && file.Ino == left.Ino && file.Dev == left.Dev
		return !inPlace, unix.Unlinkat(f.fd, p.Temporary, 0)
	}, nil)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was renamed
	}
	if err == nil && untouched && p.Fresh {
		err = t.records.Remove(string(p.Key))
	}
	return err
}
