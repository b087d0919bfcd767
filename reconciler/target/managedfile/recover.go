package managedfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// leftovers are the lists of temporary files that could not be removed, for example because their directory did not respond. It is
// safe for concurrent use.
type leftovers struct {
	mu   sync.Mutex
	byIn map[string][]string // identifiers of lists, by the directory without symbolic links
}

// maxLeft is how many temporary files of one file may be left over. The file is not written again until some of them can be removed.
const maxLeft = 8

// lists returns the identifiers of the lists of a directory, in order.
func (l *leftovers) lists(directory string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.byIn[directory]))
}

func (l *leftovers) note(directory, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.byIn[directory], id) { // Init is repeated until it succeeds
		l.byIn[directory] = append(l.byIn[directory], id)
	}
}

func (l *leftovers) forget(directory string, ids map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byIn[directory] = slices.DeleteFunc(l.byIn[directory], func(id string) bool { return ids[id] })
	if len(l.byIn[directory]) == 0 {
		delete(l.byIn, directory)
	}
}

// removeLeft removes what earlier writings have left over in a directory. It returns an error for each file that must not be written, because
// maxLeft of its temporary files cannot be removed, as when the owner of the directory has replaced them. Calls for one directory, by
// different paths, may run at the same time.
func (t *Target) removeLeft(in *folder) (full map[Key]error, err error) {
	ids := t.left.lists(in.path)
	if len(ids) == 0 {
		return nil, nil
	}
	lists := map[string][]pending{}
	for _, id := range ids {
		lists[id], _ = t.pending.Get(id)
	}
	stay, err := t.unlinkAll(in, slices.Concat(slices.Collect(maps.Values(lists))...))
	if err != nil {
		return nil, err
	}
	done, err := t.forgetLists(lists, stay)
	if t.left.forget(in.path, done); err != nil {
		return nil, err
	}
	full, left := map[Key]error{}, map[Key]int{}
	for _, id := range ids { // in order, so that the same one is named each time
		for _, p := range lists[id] {
			if err := stay[p.Temporary]; err == nil {
				continue
			} else if left[p.Key]++; left[p.Key] == maxLeft {
				full[p.Key] = fmt.Errorf("write file %s: too many temporary files are left over: %w", p.Key, err)
			}
		}
	}
	return full, nil
}

// forgetLists removes the lists of temporary files of which none stays, and returns their identifiers.
func (t *Target) forgetLists(lists map[string][]pending, stay map[string]error) (done map[string]bool, err error) {
	done = map[string]bool{}
	for id, list := range lists {
		if !slices.ContainsFunc(list, func(p pending) bool { return stay[p.Temporary] != nil }) {
			done[id] = true
		}
	}
	errs := t.pending.RemoveAll(slices.Collect(maps.Keys(done)))
	for id := range errs {
		delete(done, id)
	}
	return done, errors.Join(slices.Collect(maps.Values(errs))...)
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
	t.unsettled.clear() // Init is repeated until it succeeds
	errs := make([]error, len(all))
	byDirectory(len(all), func(i int) string { return all[i].Directory.Path }, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			errs[i] = t.recoverOne(all[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	stay := map[string]error{} // by the name of the temporary file, which is random
	for i, err := range errs {
		if err != nil {
			stay[all[i].Temporary] = err
			t.log.Warn("A temporary file may be left over: it is looked for again later", "file", string(all[i].Key), "error", err)
		}
	}
	done, err := t.forgetLists(lists, stay)
	for id, list := range lists {
		switch {
		case done[id] || len(list) == 0:
		case slices.ContainsFunc(list, func(p pending) bool { return p.Fresh || errors.Is(stay[p.Temporary], errAway) }):
			for _, p := range list {
				if stay[p.Temporary] != nil {
					t.unsettled.note(unsettledFile{p, id})
				}
			}
		default:
			t.left.note(list[0].Directory.Path, id) // all are in one directory
		}
	}
	return err
}

// unsettled are the temporary files of which it is not known yet what became of them, and so not whether a record of the file holds. It is safe for
// concurrent use.
type unsettled struct {
	mu    sync.Mutex
	byKey map[Key][]unsettledFile
}

type unsettledFile struct {
	pending
	list string // its identifier
}

func (u *unsettled) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byKey = map[Key][]unsettledFile{}
}

func (u *unsettled) note(f unsettledFile) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byKey[f.Key] = append(u.byKey[f.Key], f)
}

// take removes and returns those of a file.
func (u *unsettled) take(key Key) []unsettledFile {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.byKey[key]
	delete(u.byKey, key)
	return all
}

// has reports whether there are any of a list.
func (u *unsettled) has(list string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, all := range u.byKey {
		if slices.ContainsFunc(all, func(f unsettledFile) bool { return f.list == list }) {
			return true
		}
	}
	return false
}

// settle tries again to find out what became of the temporary files of a file, before its record is used. While its directory is away there is
// nothing that the record could hold for.
func (t *Target) settle(key Key) error {
	var errs []error
	for _, f := range t.unsettled.take(key) {
		if err := t.recoverOne(f.pending); err != nil {
			t.unsettled.note(f)
			if !errors.Is(err, errAway) {
				errs = append(errs, fmt.Errorf("file %s: it is not known what an earlier process has done with it: %w", key, err))
			}
		} else if !t.unsettled.has(f.list) {
			errs = append(errs, t.pending.Remove(f.list))
		}
	}
	return errors.Join(errs...)
}

// errAway is the error of a temporary file whose directory is away. Its disk may be mounted at a later start.
var errAway = errors.New("its directory is not there")

// recoverOne removes the record only after the temporary file: as long as that is there, another
// process's rename of it, which hangs, may yet replace what the record has the original of.
func (t *Target) recoverOne(p pending) error {
	f, err := t.answers.open(p.Directory.Path)
	if errors.Is(err, unix.ENOENT) {
		return errAway
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // nothing was written to it
	untouched, err := change(t, f, func(f *folder) (bool, error) {
		untouched, err := t.wasNotRenamed(f, p)
		if err != nil {
			return false, err
		}
		return untouched, unix.Unlinkat(f.fd, p.Temporary, 0)
	}, nil)
	if errors.Is(err, unix.ENOENT) {
		if f.identity != p.Directory {
			return errAway
		}
		return nil // it was renamed
	}
	if err == nil && untouched && p.Fresh {
		err = t.records.Remove(string(p.Key))
	}
	return err
}

// wasNotRenamed reports whether a temporary file was not renamed. Others can give a file of theirs its name after that, and a link to the one in
// place, which has changed since it was written. If they have only changed the temporary file itself, what is in place tells: it is as it was
// before, or, if there was nothing before, not what was written. If no file has the name, the error matches ENOENT.
func (t *Target) wasNotRenamed(f *folder, p pending) (bool, error) {
	left, err := f.stat(p.Temporary)
	if err != nil {
		return false, err
	}
	rec, known := t.records.Get(string(p.Key))
	if !known || rec.Temporary == nil || *rec.Temporary == stampOf(&left).temporary() {
		return known && rec.Temporary != nil, nil
	}
	is, err := t.lookNow(p.Key, f)
	switch before := rec.Original; {
	case err != nil || !is.exists() || is.unread():
		return false, err
	case before == nil:
		return !rec.wrote(is), nil
	default:
		return is.Hash != "" && is.Hash == before.Hash && is.attributes() == before.attributes(), nil
	}
}
