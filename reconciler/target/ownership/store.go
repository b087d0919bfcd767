package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// Config says where records are kept.
type Config struct {
	// Dir is the state directory. It is created with mode 0700 if need be. One
	// that is another user's, or writable for everyone, is refused.
	Dir string
	// Identity that records are bound to; when zero, the current one.
	Identity Identity
	// Logger gets a warning for each file that is set aside, or dropped although
	// it is of this boot; nil logs nothing.
	Logger *slog.Logger
	// ReadOnly has nothing written: the directory and its records are read as they are, also
	// while a process that owns them writes. A directory that does not exist has no records;
	// void and unreadable records are left out and stay. To put or remove records is an error.
	ReadOnly bool
}

// ErrReadOnly is the error of what would write into a store that was opened to be read.
var ErrReadOnly = errors.New("the state directory was opened to be read only")

// Store is a state directory. Targets open their [Records] in it.
type Store struct {
	dir      string
	identity Identity
	log      *slog.Logger
	readOnly bool
}

// ReadOnly reports whether nothing may be written, by whatever keeps more in the state
// directory than records, too.
func (s *Store) ReadOnly() bool { return s.readOnly }

// Open opens the state directory. Errors are those of the file system.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("no state directory is given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Identity == (Identity{}) {
		current, err := CurrentIdentity()
		if err != nil {
			return nil, err
		}
		cfg.Identity = current
	}
	if !cfg.ReadOnly {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the state directory: %w", err)
		}
	}
	if err := checkPrivate(cfg.Dir); err != nil && (!cfg.ReadOnly || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	return &Store{dir: cfg.Dir, identity: cfg.Identity, log: cfg.Logger, readOnly: cfg.ReadOnly}, nil
}

// checkPrivate refuses a directory in which others could write records.
func checkPrivate(dir string) error {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return fmt.Errorf("look at the state directory %s: %w", dir, err)
	}
	if err := refuse(stat, os.Geteuid()); err != nil {
		return fmt.Errorf("state directory %s %w; records decide what is removed and restored", dir, err)
	}
	return nil
}

// refuse says what is wrong with a state directory of the user.
func refuse(stat unix.Stat_t, user int) error {
	switch {
	case stat.Uid != 0 && int(stat.Uid) != user:
		return fmt.Errorf("belongs to user %d, expected user %d", stat.Uid, user)
	case stat.Mode&unix.S_IWOTH != 0:
		return errors.New("can be written by everyone: take that away (chmod o-w)")
	}
	return nil
}
