package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/statehive/statehive/internal/trusted"
)

// Records are the records of one kind of object, by key. T is the content of a record,
// which is written as JSON.
type Records[T any] struct {
	kind     string
	dir      string
	is       fs.FileInfo // of the directory; nil if it does not exist
	identity Identity
	lasting  bool
	log      *slog.Logger
	readOnly bool
	damaged  map[string]bool // names of files that were set aside
	store    *Store

	mu         sync.Mutex
	byKey      map[string]T
	generation uint64
}

const (
	suffix          = ".json"
	temporaryPrefix = ".tmp-"
	// maxName leaves room below the 255 bytes that file systems allow.
	maxName = 200
	// maxSize is the maximum number of bytes of the file of a record, and of its attachment.
	maxSize = 16 << 20
)

// file is the form of a record on disk.
type file struct {
	Identity
	Key    string          `json:"key"`
	Record json.RawMessage `json:"record"`
	Sum    string          `json:"sum"` // see sumOf
}

// sumOf returns a checksum of a record and its kind. It detects damage and mix-ups, but not
// forgery: the owner and the mode of the file protect against that.
func (f *file) sumOf(kind string) (string, error) {
	text, err := json.Marshal([]any{kind, f.Boot, f.Netns, f.Key, f.Record})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// NewRecords opens the records of a kind, which becomes the name of a directory
// of the store. Void records are removed, unreadable ones set aside.
func NewRecords[T any](store *Store, kind string) (*Records[T], error) {
	return newRecords[T](store, kind, false)
}

func newRecords[T any](store *Store, kind string, lasting bool) (*Records[T], error) {
	if store == nil {
		return nil, fmt.Errorf("open the records of kind %s: no state directory is given", kind)
	}
	r := &Records[T]{
		kind:     kind,
		dir:      filepath.Join(store.dir, url.PathEscape(kind)),
		identity: store.identity,
		lasting:  lasting,
		log:      store.log,
		readOnly: store.readOnly,
		damaged:  map[string]bool{},
		store:    store,
		byKey:    map[string]T{},
	}
	if !r.readOnly {
		if err := trusted.MkdirAll(r.dir, trust); err != nil {
			return nil, fmt.Errorf("open the records of kind %s: %w", kind, err)
		}
	}
	entries, err := r.list()
	if missing := errors.Is(err, fs.ErrNotExist); err != nil && (!r.readOnly || !missing) {
		return nil, fmt.Errorf("open the records of kind %s: %w", kind, err)
	}
	for _, entry := range entries {
		if err := r.load(entry.Name(), store); err != nil {
			return nil, fmt.Errorf("open the records of kind %s: %w", kind, err)
		}
	}
	if err := r.dropAttachments(entries); err != nil {
		return nil, fmt.Errorf("open the records of kind %s: %w", kind, err)
	}
	return r, nil
}

// load loads one file of the directory.
func (r *Records[T]) load(name string, store *Store) error {
	path := filepath.Join(r.dir, name)
	switch {
	case strings.HasSuffix(name, attachmentSuffix):
		return nil
	case wasSetAside(name):
		store.noteAside(path)
		return nil
	case strings.HasSuffix(name, suffix): // also of a key that looks like a temporary file
	case strings.HasPrefix(name, temporaryPrefix) && !r.readOnly:
		return os.Remove(path) // it was never renamed, so no object was touched for it
	default:
		return nil
	}
	key, record, err := r.read(path)
	if r.readOnly && err != nil {
		r.leaveOut(path, err)
		return nil
	}
	switch {
	case errors.Is(err, errElsewhere):
		r.log.Warn("A record of what was made in another network namespace is dropped; if that still exists, it is not known there any more what is ours",
			"file", path)
		return os.Remove(path)
	case errors.Is(err, errVoid):
		return os.Remove(path)
	case err != nil:
		return r.setAside(path, err, store)
	}
	r.byKey[key] = record
	return nil
}

// leaveOut skips a file without a valid record in a read-only store.
func (r *Records[T]) leaveOut(path string, err error) {
	if !errors.Is(err, errVoid) && !errors.Is(err, errElsewhere) && !errors.Is(err, fs.ErrNotExist) { // it may be gone by now
		r.log.Warn("A record cannot be read; what it is about is not known to be ours", "file", path, "error", err)
	}
}

// Why a record is void: it is of another boot, or of another network namespace
// of this one.
var (
	errVoid      = errors.New("void")
	errElsewhere = errors.New("of another network namespace")
)

func (r *Records[T]) read(path string) (key string, record T, err error) {
	data, err := readFile(path)
	if err != nil {
		return "", record, err
	}
	return r.decode(path, data)
}

// decode returns the record in the file at a path, given the content of the file.
func (r *Records[T]) decode(path string, data []byte) (key string, record T, err error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return "", record, fmt.Errorf("not a record: %w", err)
	}
	if f.Boot == "" || f.Netns == "" {
		return "", record, errors.New("not a record: boot or netns is missing")
	}
	if sum, err := f.sumOf(r.kind); err != nil || sum != f.Sum {
		return "", record, errors.Join(errors.New("its checksum is wrong: it is damaged, or a record of another kind"), err)
	}
	switch {
	case r.lasting:
	case f.Boot != r.identity.Boot:
		return "", record, errVoid
	case f.Netns != r.identity.Netns:
		return "", record, errElsewhere
	}
	if fileName(f.Key) != filepath.Base(path) {
		return "", record, fmt.Errorf("the record is that of %q, which belongs into %s", f.Key, fileName(f.Key))
	}
	if err := json.Unmarshal(f.Record, &record); err != nil {
		return "", record, fmt.Errorf("not a record of this kind: %w", err)
	}
	return f.Key, record, nil
}

// list returns the entries of the directory, after checking that nobody else can write to it.
func (r *Records[T]) list() ([]fs.DirEntry, error) {
	d, err := trusted.Open(r.dir, trust)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	if err == nil {
		r.is, err = d.Stat()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, errors.Join(err, d.Close())
}

// writable returns an error if nothing may be written, or if a written file would not be found
// at the next start, or would be found by somebody else.
func (r *Records[T]) writable() error {
	if r.readOnly {
		return ErrReadOnly
	}
	is, err := os.Lstat(r.dir)
	if err == nil && !os.SameFile(is, r.is) {
		err = fmt.Errorf("%s was replaced since this process has started: restart it, if what is there now is right", r.dir)
	}
	return err
}

// readFile returns the content of a file, if nobody else may have written it.
func readFile(path string) (data []byte, err error) {
	err = withFile(path, func(f *os.File) error {
		data, err = readAll(f)
		return err
	})
	return data, err
}

// withFile opens a file, if nobody else may have written it.
func withFile(path string, do func(f *os.File) error) error {
	f, err := trusted.OpenIn(filepath.Dir(path), filepath.Base(path), os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

func readAll(f *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil {
		err = checkSize(data)
	}
	return data, err
}

func checkSize(data []byte) error {
	if len(data) > maxSize {
		return fmt.Errorf("it is larger than %d bytes", maxSize)
	}
	return nil
}

// Get returns the record of a key.
func (r *Records[T]) Get(key string) (record T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok = r.byKey[key]
	return record, ok
}

// Damaged reports whether the record of a key was set aside when the records were opened, because it could not be read.
func (r *Records[T]) Damaged(key string) bool { return r.damaged[fileName(key)] }

// Put writes the record of a key. After it has returned, a crash of the process does
// not lose the record. An error means that there is no record: do not touch the kernel.
func (r *Records[T]) Put(key string, record T) error {
	return r.PutAll(map[string]T{key: record})[key]
}

// PutAll is like Put for many records together. It returns the errors of records that were not
// written, by key.
func (r *Records[T]) PutAll(records map[string]T) map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.Collect(maps.Keys(records))
	errs := r.each(keys, func(key string) error {
		data, err := r.encode(key, records[key])
		if err == nil {
			err = r.write(fileName(key), data)
		}
		if err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		return nil
	})
	for _, key := range keys {
		if errs[key] == nil {
			r.byKey[key] = records[key]
			r.generation++
		}
	}
	return errs
}

// encode returns the content of the file of a record.
func (r *Records[T]) encode(key string, record T) ([]byte, error) {
	if !utf8.ValidString(key) {
		return nil, errors.New("the key is not valid UTF-8")
	}
	data, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	f := file{Identity: r.identity, Key: key, Record: data}
	if f.Sum, err = f.sumOf(r.kind); err != nil {
		return nil, err
	}
	return json.Marshal(f)
}

// Remove removes the record of a key. Call it after its object is gone or given back. It
// succeeds if there is no record.
func (r *Records[T]) Remove(key string) error {
	return r.RemoveAll([]string{key})[key]
}

// RemoveAll is like Remove for many keys together. It returns the errors of records that were
// not removed, by key.
func (r *Records[T]) RemoveAll(keys []string) map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, known := r.byKey[key]
		return !known
	})
	errs := r.each(keys, func(key string) error {
		err := os.Remove(filepath.Join(r.dir, fileName(key)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record of %q: %w", key, err)
		}
		return nil
	})
	for _, key := range keys {
		if errs[key] != nil {
			continue
		}
		delete(r.byKey, key)
		r.generation++
		if err := r.detach(key); err != nil {
			r.log.Warn("What was kept with a record is left over until the next start", "key", key, "error", err)
		}
	}
	return errs
}

// Generation returns a number that changes with each Put and Remove that has changed
// something. It tells users whether data derived from all records is still valid.
func (r *Records[T]) Generation() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

// All yields the records that exist at the time of the call, in the order of
// their keys. Records may be put and removed meanwhile.
func (r *Records[T]) All() iter.Seq2[string, T] {
	r.mu.Lock()
	records := maps.Clone(r.byKey)
	r.mu.Unlock()
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(records)) {
			if !yield(key, records[key]) {
				return
			}
		}
	}
}

// fileName returns the name of the file for a key. Long keys are cut and distinguished
// by a hash; the key itself is in the file.
func fileName(key string) string {
	name := url.PathEscape(key)
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(key))
		name = name[:maxName-1-hex.EncodedLen(len(sum))] + "-" + hex.EncodeToString(sum[:])
	}
	return name + suffix
}
