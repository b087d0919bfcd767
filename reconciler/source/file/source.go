package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/trusted"
	"github.com/statehive/statehive/statedb"
)

// Config configures a source. DB, Dir and Kinds are required; the zero value of any
// other field stands for its default.
type Config struct {
	DB *statedb.DB
	// Dir is the directory to read. It must exist when the source is made.
	Dir string
	// AllowWritable allows documents that users other than root and this user can write.
	// Without it, the source refuses files and directories that such users own or can
	// write to, and everything below such a directory.
	AllowWritable bool
	// Kinds are the kinds of documents. Each has a table of its own in DB.
	Kinds []Kind
	// Name of the source on the tables. Default: "documents".
	Name string
	// Logger logs when a problem begins and when it ends. Of the records with the same
	// message, the first 50 in a minute are logged, and then the number of the others.
	// Default: nothing is logged.
	Logger *slog.Logger
	// Quiet is how long the directory must not change before it is read. If it keeps
	// changing, it is read after ten times that time. Default: 50 ms.
	Quiet time.Duration
	// Settle is how long a file must be invalid, empty or absent before that counts.
	// Default: 150 ms.
	Settle time.Duration
	// Rescan is how often the directory is read when no change is reported.
	// Default: 30 s.
	Rescan time.Duration
	// MaxFileSize is how many bytes a file may have. Default: [MaxFileSize].
	MaxFileSize int64
	// MaxTotalSize is how many bytes all files may have together. Files larger than
	// MaxFileSize are refused on their own and do not count. Default: [MaxTotalSize].
	MaxTotalSize int64
	// Memory remembers across restarts what was in force, so that a directory that is empty
	// at the start can be told from one that has become empty.
	// Default: an empty directory at the start is complete.
	Memory Memory
}

// Memory stores what a source has to know about the previous run. Its methods are called
// by New and by the goroutine of Run.
type Memory interface {
	// InForce returns the value of the last successful call of SetInForce.
	InForce() InForce
	// SetInForce stores what is in force. It is called before the first row is in a table,
	// and whenever the value changes. If it fails, the error is logged and it is called again later.
	SetInForce(now InForce) error
}

// InForce is what a [Memory] stores.
type InForce struct {
	// Files is the number of files with documents. It is 0 if no rows are in force.
	Files int `json:"files"`
	// Lost reports whether files were lost together and were not all back.
	Lost bool `json:"lost,omitempty"`
	// Dir is the absolute path of the directory.
	Dir string `json:"dir,omitempty"`
}

// Default limits on the files that are read.
const (
	MaxFiles     = 100_000  // entries that a directory may have
	MaxFileSize  = 16 << 20 // bytes that a file may have
	MaxTotalSize = 1 << 30  // bytes that all files may have together
)

// impaired is the interval of scans while changes may go unnoticed.
const impaired = time.Second

func (c Config) withDefaults() Config {
	defaultTo := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	defaultTo(&c.Quiet, 50*time.Millisecond)
	defaultTo(&c.Settle, 150*time.Millisecond)
	defaultTo(&c.Rescan, 30*time.Second)
	if c.Name == "" {
		c.Name = "documents"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxFileSize <= 0 {
		c.MaxFileSize = MaxFileSize
	}
	if c.MaxTotalSize <= 0 {
		c.MaxTotalSize = MaxTotalSize
	}
	return c
}

// Source reads documents. Run may be called by one goroutine at a time; the other
// methods are safe for concurrent use.
type Source struct {
	config    Config
	parser    parser
	feeds     []feed
	documents *statedb.RWTable[Document]
	tables    []statedb.TableMeta // all that are written
	origins   atomic.Pointer[map[id]*document]
	known     atomic.Pointer[knownContents] // for Read
	approvals approvals
	filters   filters

	// Functions that ask the kernel, which tests replace.
	readDir  func(string) ([]os.DirEntry, os.FileInfo, error)
	deviceOf func(os.FileInfo) uint64
	writing  func(*os.File) bool // reports whether somebody has the file open for writing

	directory *responder // belongs to the goroutine of Run

	progress
}

// progress is the state of Run. It belongs to the goroutine of Run.
type progress struct {
	log         *slog.Logger          // of the configuration, with a limit while Run runs
	files       map[string]*fileState // by path
	doubt       time.Time             // since when the directory cannot be listed
	began       time.Time             // the time of the first scan
	device      uint64                // the device of the directory when its documents were last applied
	recalled    InForce               // what was in force in the previous run, while that is of interest; Dir only if it is another one
	remembered  InForce               // what Memory has stored
	memoryError string                // why Memory could not store it
	goneIsFine  bool                  // the absence of the directory was approved
	watchError  string                // why changes may go unnoticed
	elsewhere   elsewhere             // where documents may be that files no longer declare, or were last
	clearSince  time.Time             // since when there is no such file; zero if there is one
	allValid    bool                  // all files have been valid at the same time since the start
	published   state
	last        resolution // the resolution that published is based on, unless it was not applied
}

// New returns a source. It registers the source in the tables of its kinds, which are
// not initialized until Run has read the directory once, and creates the table of files
// in the database. New returns an error if the directory cannot be listed, or if two
// kinds have the same name or table.
func New(c Config) (*Source, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("source of documents: %w", err)
	}
	dir, err := filepath.Abs(c.Dir)
	list := func(dir string) ([]os.DirEntry, os.FileInfo, error) {
		return readDir(dir, trusted.Policy{AllowWritable: c.AllowWritable})
	}
	if err == nil {
		_, _, err = list(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("directory of documents %q cannot be read: %w", c.Dir, withoutPath(err))
	}
	c.Dir = dir
	s := &Source{config: c, progress: progress{log: c.Logger, files: map[string]*fileState{}}, approvals: approvals{wake: make(chan struct{}, 1)}, readDir: list, deviceOf: deviceOf, writing: openForWriting, directory: newResponder(dir)}
	if c.Memory != nil {
		s.recall(c.Memory.InForce())
	}
	s.parser = newParser(c.Kinds)
	for _, k := range c.Kinds {
		s.tables = append(s.tables, k.table())
	}
	if err := c.DB.Update(context.Background(), s.register, s.tables...); err != nil {
		return nil, fmt.Errorf("source of documents: %w", err)
	}
	s.documents, err = statedb.NewTable(c.DB, statedb.Schema[Document]{Name: TableName, Primary: byFile()})
	if err != nil {
		return nil, fmt.Errorf("source of documents: %w", err)
	}
	s.tables = append(s.tables, s.documents)
	return s, nil
}

func (c Config) check() error {
	if c.DB == nil {
		return errors.New("DB is not set")
	}
	if c.Dir == "" {
		return errors.New("no directory is set")
	}
	return checkKinds(c.Kinds)
}

func checkKinds(kinds []Kind) error {
	byName, byTable := map[string]bool{}, map[statedb.TableMeta]string{}
	for _, k := range kinds {
		if k == nil {
			return errors.New("a kind is nil")
		}
		if byName[k.Name()] {
			return fmt.Errorf("kind %q is registered twice", k.Name())
		}
		if other := byTable[k.table()]; other != "" {
			return fmt.Errorf("kinds %q and %q have the same table %q", other, k.Name(), k.table().Name())
		}
		byName[k.Name()], byTable[k.table()] = true, k.Name()
	}
	return nil
}

func (s *Source) register(txn *statedb.WriteTxn) error {
	for _, k := range s.config.Kinds {
		f, err := k.register(txn, s.config.Name)
		if err != nil {
			return err
		}
		s.feeds = append(s.feeds, f)
	}
	return nil
}

// Documents returns the table of files, whose rows have their states and problems.
func (s *Source) Documents() *statedb.Table[Document] { return statedb.ReadOnly(s.documents) }

// Feeds reports whether documents of one of the kinds become rows of a table.
func (s *Source) Feeds(table statedb.TableMeta) bool {
	return slices.ContainsFunc(s.config.Kinds, func(k Kind) bool { return k.table() == table.Untyped() })
}

// Dir returns the absolute path of the directory.
func (s *Source) Dir() string { return s.config.Dir }
