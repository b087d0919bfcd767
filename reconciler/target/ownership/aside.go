package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// corruptSuffix is appended to the name of a file that is set aside, with a number after it if that name is taken.
const corruptSuffix = ".corrupt"

// setAside renames a file that is not a valid record, and what is attached to it, so that both can be examined and used again.
func (r *Records[T]) setAside(path string, reason error, store *Store) error {
	aside, attached, err := asideOf(path)
	if err != nil {
		return err
	}
	log := r.log.With("file", aside, "was", path)
	if attached { // first: if this process is killed in between, the next one goes on with the record
		if err := os.Rename(path+attachmentSuffix, aside+attachmentSuffix); err != nil {
			return err
		}
		log = log.With("kept with it", aside+attachmentSuffix)
	}
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	r.damaged[filepath.Base(path)] = true
	store.noteAside(aside)
	log.Warn("A record of what this agent has written cannot be used and was set aside; what it was about is not known to be ours any more. "+
		"To have it used, stop the agent, give it its name again, and mend it", "error", reason)
	return nil
}

// asideOf returns a name for setting a file aside, and whether something is attached to the file. No other file has that name, and nothing that
// was attached to another one would be replaced.
func asideOf(path string) (aside string, attached bool, err error) {
	dir, name := filepath.Split(path)
	first := dir + name + corruptSuffix
	if len(name) > maxName+len(suffix) { // it is not that of a record
		first = dir + name[:maxName+len(suffix)] + corruptSuffix
	} else if attached, err = exists(path + attachmentSuffix); err != nil {
		return "", false, err
	}
	aside = first
	for n := 2; ; n++ {
		taken, err := exists(aside)
		if !taken && err == nil && attached {
			taken, err = exists(aside + attachmentSuffix)
		}
		if !taken || err != nil {
			return aside, attached, err
		}
		aside = fmt.Sprintf("%s-%d", first, n)
	}
}

// wasSetAside reports whether a file has a name that asideOf returns.
func wasSetAside(name string) bool {
	at := strings.LastIndex(name, corruptSuffix)
	if at < 0 {
		return false
	}
	number, numbered := strings.CutPrefix(name[at+len(corruptSuffix):], "-")
	_, err := strconv.ParseUint(number, 10, 64)
	return number == "" && !numbered || numbered && err == nil
}

// nameBefore returns the name that a file had before it was set aside.
func nameBefore(name string) string { return name[:strings.LastIndex(name, corruptSuffix)] }

// exists reports whether there is a file of that name.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
