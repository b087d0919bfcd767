package ownership

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Config says where records are kept.
type Config struct {
	// Dir is the state directory. It is created with mode 0700 if need be.
	Dir string
	// Identity that records are bound to; when zero, the current one.
	Identity Identity
	// Logger gets a warning for each file that is set aside; nil logs nothing.
	Logger *slog.Logger
}

// Store is a state directory. Targets open their [Records] in it.
type Store struct {
	dir      string
	identity Identity
	log      *slog.Logger
}

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
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	return &Store{dir: cfg.Dir, identity: cfg.Identity, log: cfg.Logger}, nil
}

// write puts data into a file of the directory dir, whole or not at all.
func write(dir, name string, data []byte) (err error) {
	file, err := os.CreateTemp(dir, temporaryPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, name))
}
