package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/statehive/statehive/internal/trusted"
)

// Config is the configuration of a store.
type Config struct {
	// Dir is the state directory. It is created with mode 0700 if need be. It is refused
	// if it, or a directory above, belongs to another user than root and this one, or if
	// others can write to it. Those above may be sticky, as /tmp is.
	Dir string
	// Identity that records are bound to; when zero, the current one.
	Identity Identity
	// Logger gets a warning for each file that is set aside, or dropped although
	// it is of this boot; nil logs nothing.
	Logger *slog.Logger
	// ReadOnly disables writing: the directory and its records are read as they are, even while
	// the process that owns them writes. A directory that does not exist has no records;
	// void and unreadable records are skipped but not removed. Put and Remove return errors.
	ReadOnly bool
}

// ErrReadOnly is the error of a write to a store that was opened read-only.
var ErrReadOnly = errors.New("the state directory was opened to be read only")

// Store is a state directory. Targets open their [Records] in it.
type Store struct {
	dir      string
	identity Identity
	log      *slog.Logger
	readOnly bool

	mu      sync.Mutex
	aside   []string // paths of records that were set aside
	mark    mark
	changed bool // whether records may have changed since Mark was called
}

// ReadOnly reports whether nothing may be written. This also applies to anything else that
// keeps files in the state directory.
func (s *Store) ReadOnly() bool { return s.readOnly }

// SetAside returns the paths, in order, of the records that were set aside because they could not be read, now or earlier, and that have been neither
// removed nor given back their names since. Only the kinds count whose records have been opened. It is safe for concurrent use.
func (s *Store) SetAside() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside = slices.DeleteFunc(s.aside, func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	return slices.Sorted(slices.Values(s.aside))
}

// noteAside adds to what SetAside returns.
func (s *Store) noteAside(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside = append(s.aside, path)
}

// Open opens the state directory. It returns errors of the file system.
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
	if err := prepare(cfg.Dir, cfg.ReadOnly); err != nil {
		return nil, err
	}
	s := &Store{dir: cfg.Dir, identity: cfg.Identity, log: cfg.Logger, readOnly: cfg.ReadOnly, changed: true}
	if err := s.openMark(); err != nil {
		return nil, fmt.Errorf("open the state directory: %w", err)
	}
	return s, nil
}

// trust is what the directories of records have to fulfill.
var trust = trusted.Policy{Below: true}

// prepare creates the state directory, and refuses one in which others could write records.
func prepare(dir string, readOnly bool) error {
	if !readOnly {
		if err := trusted.MkdirAll(dir, trust); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
	}
	f, err := trusted.Open(dir, trust)
	if err == nil {
		err = f.Close()
	}
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the state directory, whose records decide what is removed and restored: %w", err)
	}
	return nil
}
