package managedfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

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
	errs, untouched := make([]error, len(all)), make([]atomic.Bool, len(all))
	byDirectory(len(all), func(i int) string { return all[i].Directory.Path }, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			errs[i] = t.recoverOne(all[i], &untouched[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	stay, found := map[string]error{}, map[string]*atomic.Bool{} // by the name of the temporary file, which is random
	for i, err := range errs {
		if found[all[i].Temporary] = &untouched[i]; err != nil {
			stay[all[i].Temporary] = err
			level := slog.LevelWarn
			if errors.Is(err, errAway) { // for ever, if the directory was removed
				level = slog.LevelDebug
			}
			t.log.Log(ctx, level, "A temporary file may be left over: it is looked for again later", "file", string(all[i].Key), "error", err)
		}
	}
	done, err := t.forgetLists(lists, stay)
	for id, list := range lists {
		switch {
		case done[id] || len(list) == 0:
		case slices.ContainsFunc(list, func(p pending) bool { return p.Fresh || errors.Is(stay[p.Temporary], errAway) }):
			for _, p := range list {
				if stay[p.Temporary] != nil {
					t.unsettled.note(unsettledFile{p, id, found[p.Temporary]})
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
	settling sync.Mutex // held by settle
	mu       sync.Mutex
	byKey    map[Key][]unsettledFile
}

type unsettledFile struct {
	pending
	list      string       // its identifier
	untouched *atomic.Bool // see recoverOne
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

// of returns those of a file.
func (u *unsettled) of(key Key) []unsettledFile {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.byKey[key])
}

// remove removes one, and reports whether it was the last one of its list.
func (u *unsettled) remove(done unsettledFile) (last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byKey[done.Key] = slices.DeleteFunc(u.byKey[done.Key], func(f unsettledFile) bool { return f.Temporary == done.Temporary })
	if len(u.byKey[done.Key]) == 0 {
		delete(u.byKey, done.Key)
	}
	for _, all := range u.byKey {
		if slices.ContainsFunc(all, func(f unsettledFile) bool { return f.list == done.list }) {
			return false
		}
	}
	return true
}

// settle tries again to find out what became of the temporary files of a file, before its record is used. While their directory is away, that is not
// known, and no error. Only who changes the file may call it: nobody else stores its record then.
func (t *Target) settle(key Key) error {
	if len(t.unsettled.of(key)) == 0 {
		return nil
	}
	t.unsettled.settling.Lock()
	defer t.unsettled.settling.Unlock()
	var errs []error
	for _, f := range t.unsettled.of(key) {
		switch err := t.recoverOne(f.pending, f.untouched); {
		case err == nil:
			if t.unsettled.remove(f) {
				errs = append(errs, t.pending.Remove(f.list))
			}
		case !errors.Is(err, errAway):
			errs = append(errs, fmt.Errorf("file %s: it is not known what an earlier process has done with it: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// errAway is the error of a temporary file whose directory is away. Its disk may be mounted at a later start.
var errAway = errors.New("its directory is not there")

// recoverOne removes the record only after the temporary file: as long as that is there, another
// process's rename of it, which hangs, may yet replace what the record has the original of. It sets untouched when it knows that there was no rename:
// the temporary file may be gone at the next try.
func (t *Target) recoverOne(p pending, untouched *atomic.Bool) error {
	f, err := t.answers.open(p.Directory.Path)
	if errors.Is(err, unix.ENOENT) {
		return errAway
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // nothing was written to it
	_, err = change(t, f, func(f *folder) (struct{}, error) {
		was, err := t.wasNotRenamed(f, p)
		if err != nil {
			return struct{}{}, err
		}
		if was {
			untouched.Store(true)
		}
		return struct{}{}, unix.Unlinkat(f.fd, p.Temporary, 0)
	}, nil)
	gone := errors.Is(err, unix.ENOENT)
	switch {
	case gone && !untouched.Load() && f.identity != p.Directory:
		return errAway
	case err != nil && !gone && !errors.Is(err, unix.EISDIR): // a directory is not the agent's, but has taken the place of the file
		return err
	case untouched.Load() && p.Fresh:
		if _, found := t.recordWith(p); found {
			return t.records.Remove(string(p.Key))
		}
	}
	return nil
}

// recordWith returns the record that was stored with a temporary file, unless there is a later one, of another directory or of none.
func (t *Target) recordWith(p pending) (rec record, found bool) {
	rec, known := t.records.Get(string(p.Key))
	return rec, known && rec.Directory == p.Directory && rec.Temporary != nil
}

// wasNotRenamed reports whether a temporary file was certainly not renamed. Others can give a file of theirs its name after that, and a link to the
// one in place, which has changed since it was written; or they may have changed the temporary file itself before. What is in place tells if it is as
// it was before. If there was nothing before, nothing tells, unless the temporary file is the one that was written, and only users who may do all
// that the agent may can have given it its name back. Otherwise the record stays, though what is in place may be a file that others have made since
// the kill, and is replaced then. That is the lesser evil, since a document declares that file. Without the record, any user who can write to the
// directory could keep the agent from the file for good. If no file has the name, the error matches ENOENT.
func (t *Target) wasNotRenamed(f *folder, p pending) (bool, error) {
	left, err := f.stat(p.Temporary)
	if err != nil {
		return false, err
	}
	rec, found := t.recordWith(p)
	if !found || *rec.Temporary == stampOf(&left).temporary() {
		return found, nil
	}
	is, err := t.lookNow(p.Key, f)
	switch before := rec.Original; {
	case err != nil || !is.exists() || is.unread():
		return false, err
	case before == nil:
		trusted := !f.others && f.trusts(left.Uid) // in a sticky directory, its owner can rename it
		return trusted && left.Ino == rec.Temporary.Inode && left.Ino != is.Inode && !rec.wrote(is), nil
	default:
		return is.Hash != "" && is.Hash == before.Hash && is.attributes() == before.attributes(), nil
	}
}
