package managedfile

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keepID is the ID that chown(2) takes as "do not change"; no user has it.
const keepID = 1<<32 - 1

func checkOwner(name string) error {
	if strings.ContainsAny(name, ": \t\n\x00/") {
		return fmt.Errorf("%q is neither a name nor a number", name)
	}
	if number, err := strconv.ParseUint(name, 10, 64); err == nil && number >= keepID {
		return fmt.Errorf("%s is out of range, expected at most %d", name, keepID-1)
	}
	return nil
}

// accounts identifies a version of the files in which users and groups are looked up.
type accounts [2]stamp

func accountsIn(files [2]string) (a accounts) {
	for i, name := range files {
		var stat unix.Stat_t
		if unix.Stat(name, &stat) == nil {
			a[i] = stampOf(&stat)
		}
	}
	return a
}

// owners looks up the IDs of users and groups, each once. It belongs to one operation.
type owners struct{ users, groups map[string]lookup }

type lookup struct {
	id  uint32
	err error
}

func newOwners() *owners { return &owners{map[string]lookup{}, map[string]lookup{}} }

// user returns the ID of a user; without a name, that of the process.
func (o *owners) user(name string) (uint32, error) {
	if name == "" {
		return uint32(os.Geteuid()), nil
	}
	return find(o.users, name, func() (string, error) {
		u, err := user.Lookup(name)
		if unknown := user.UnknownUserError(""); errors.As(err, &unknown) {
			return "", fmt.Errorf("there is no user %q", name)
		} else if err != nil {
			return "", fmt.Errorf("look up user %q: %w", name, err)
		}
		return u.Uid, nil
	})
}

// group returns the ID of a group; without a name, that of the process.
func (o *owners) group(name string) (uint32, error) {
	if name == "" {
		return uint32(os.Getegid()), nil
	}
	return find(o.groups, name, func() (string, error) {
		g, err := user.LookupGroup(name)
		if unknown := user.UnknownGroupError(""); errors.As(err, &unknown) {
			return "", fmt.Errorf("there is no group %q", name)
		} else if err != nil {
			return "", fmt.Errorf("look up group %q: %w", name, err)
		}
		return g.Gid, nil
	})
}

func find(known map[string]lookup, name string, look func() (string, error)) (uint32, error) {
	if found, ok := known[name]; ok {
		return found.id, found.err
	}
	text, err := name, error(nil)
	if _, parseErr := strconv.ParseUint(name, 10, 32); parseErr != nil {
		text, err = look()
	}
	var id uint64
	if err == nil {
		id, err = strconv.ParseUint(text, 10, 32)
	}
	known[name] = lookup{uint32(id), err}
	return uint32(id), err
}
