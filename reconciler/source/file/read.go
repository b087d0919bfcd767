package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/statehive/statehive/internal/trusted"
	"github.com/statehive/statehive/statedb"
)

// File is a file of documents that was read once, for [Read].
type File struct {
	Path string `json:"path"`
	Data []byte `json:"data,omitempty"`
	// Unread is why the file could not be read; empty if it was.
	Unread string `json:"unread,omitempty"`
}

// Problem is an error in documents. Its text is the same as a [Source] reports.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1; they are 0 for the file as a whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the path of a field as the document spells it; empty: the document as a whole.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"` // what was found and what was expected
}

// String returns the problem as "file:line:column: field: what".
func (p Problem) String() string {
	return problem{place{p.File, p.Line, p.Column}, p.Field, p.Message}.String()
}

// Row is a row that a document declares.
type Row struct {
	Kind   string
	Key    string // the primary key, as text
	Value  any    // of the row type of the kind's table
	Origin string // the place of the document: "file:line:column"
}

// Contents are the contents of files of documents.
type Contents struct {
	Files     int
	Documents int // number of documents, including invalid ones
	// Rows are the rows of the files without problems, in the order of their places.
	Rows []Row
	// Problems are in the order of files.
	Problems []Problem
}

// Load reads files of documents once. Each path names a file, or a directory, in which it reads
// the files that a [Source] would read. If a file cannot be read or is being written,
// File.Unread has the reason. Load returns an error if a path is neither a file nor a
// directory, or if all files have a total of more than [MaxTotalSize] bytes.
func Load(paths ...string) ([]File, error) { return loadAll(MaxTotalSize, paths) }

func loadAll(maxTotal int64, paths []string) ([]File, error) {
	var files []File
	var total int64
	known := map[string]bool{}
	for _, path := range paths {
		below, within, err := filesAt(path)
		if err == nil {
			if err = checkTotal(sizeOf(below, MaxFileSize), maxTotal); err != nil {
				err = fmt.Errorf("%q: %w", path, err)
			}
		}
		if err != nil {
			return nil, err
		}
		for _, path := range below {
			if known[path] {
				continue
			}
			known[path] = true
			f := load(path, within)
			if total += int64(len(f.Data)); total > maxTotal { // files may have grown since
				return nil, fmt.Errorf("%q: with the files before it, it has a total of %d bytes, expected at most %d", path, total, maxTotal)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// filesAt returns the paths of the files for a path. If the path is a directory, it also returns
// the directory that they must be in.
func filesAt(path string) (files []string, within string, err error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return []string{path}, "", nil
	}
	var entries []os.DirEntry
	if err == nil {
		entries, _, err = readDir(path, trusted.Policy{AllowWritable: true})
	}
	if err != nil {
		return nil, "", fmt.Errorf("%q cannot be read: %w", path, withoutPath(err))
	}
	return documentFiles(path, entries), path, nil
}

var errWriting = errors.New("it is being written")

func load(path, within string) File {
	data, err := readOnce(path, within)
	if err != nil {
		return File{Path: path, Unread: err.Error()}
	}
	return File{Path: path, Data: data}
}

// readOnce returns the contents of a file, or an error if somebody is writing it.
func readOnce(path, within string) ([]byte, error) {
	file, info, err := open(path, trusted.Policy{AllowWritable: true, Within: within})
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	before, writing := stampOf(info), openForWriting(file)
	data, err := readAll(file, info.Size(), MaxFileSize)
	if info, statErr := file.Stat(); writing || statErr == nil && stampOf(info) != before {
		return nil, errWriting
	}
	return data, err
}

// Read returns the rows and problems of files, as a [Source] of these kinds does that reads
// them for the first time: problems have the same texts, and a key that two documents have
// is a problem of both. Nothing is written, not even to the tables of the kinds. Files are
// parsed concurrently. Read returns an error if two kinds have the same name or table.
func Read(kinds []Kind, files []File) (Contents, error) {
	if err := checkKinds(kinds); err != nil {
		return Contents{}, fmt.Errorf("kinds of documents: %w", err)
	}
	return read(newParser(kinds), files), nil
}

// Store writes rows that [Read] has returned to the tables of their kinds, for a process that only
// compares them with other rows: no source is registered, and no other rows change.
func Store(ctx context.Context, db *statedb.DB, kinds []Kind, rows []Row) error {
	byName := make(map[string]Kind, len(kinds))
	tables := make([]statedb.TableMeta, len(kinds))
	for i, k := range kinds {
		byName[k.Name()], tables[i] = k, k.table()
	}
	if len(kinds) == 0 {
		return nil
	}
	return db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			k := byName[r.Kind]
			if k == nil {
				return fmt.Errorf("row %q is of unknown kind %q", r.Key, r.Kind)
			}
			if err := k.insert(txn, r.Value); err != nil {
				return fmt.Errorf("%s: %w", r.Origin, err)
			}
		}
		return nil
	}, tables...)
}

// Read calls the function [Read] for the kinds of the source, with the current filters
// ([SetFilter]). A file with the same contents as a file that Run has read, whatever its path,
// is not parsed again: its rows are the ones that Run made, and must not be modified. Read is
// safe for concurrent use.
func (s *Source) Read(files []File) Contents {
	p := parser{kinds: s.parser.kinds, names: s.parser.names, filters: s.filters.current()}
	if known := s.known.Load(); known != nil {
		p.known = *known
	}
	return read(p, files)
}

func read(p parser, files []File) Contents {
	states := parseAll(p, files)
	r := resolve(states, nil)
	c := Contents{Files: len(files)}
	for _, f := range states {
		c.Documents += f.now.total
		for _, p := range append(f.now.problems, r.problems[f]...) {
			c.Problems = append(c.Problems, Problem{p.at.file, p.at.line, p.at.column, p.field, p.message})
		}
		if version := r.kept[f]; version != nil {
			for _, d := range version.docs {
				c.Rows = append(c.Rows, Row{d.of.Name(), d.key, d.row, d.at.String()})
			}
		}
	}
	return c
}

// parseAll parses files concurrently and returns their states.
func parseAll(p parser, files []File) []*fileState {
	states := make([]*fileState, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				states[i] = &fileState{path: files[i].Path, now: p.contentOf(files[i])}
			}
		})
	}
	workers.Wait()
	return states
}

func (p *parser) contentOf(f File) *content {
	if f.Unread != "" {
		return unreadable(cannotBeRead(f.Path, errors.New(f.Unread)))
	}
	if len(p.known) > 0 {
		if known := p.known[sha256.Sum256(f.Data)]; known != nil && known.current(p.filters) {
			return known.readAt(f.Path)
		}
	}
	return p.parse(f.Path, f.Data)
}

// knownContents are contents without problems, by checksum.
type knownContents map[[sha256.Size]byte]*content

// knownContents returns the current contents of files that have no problems. Contents with problems
// are left out, because their messages have places.
func (s *Source) knownContents() *knownContents {
	known := make(knownContents, len(s.files))
	for _, f := range s.files {
		if f.now != nil && !f.now.unread && f.now.good() {
			known[f.now.sum] = f.now
		}
	}
	return &known
}

// readAt returns the content of a file at another path with the same data as c, which has no
// problems.
func (c *content) readAt(path string) *content {
	same := *c
	same.docs = make([]*document, len(c.docs))
	docs := make([]document, len(c.docs))
	for i, d := range c.docs {
		docs[i] = *d
		docs[i].at.file = path
		same.docs[i] = &docs[i]
	}
	return &same
}
