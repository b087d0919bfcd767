package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/statehive/statehive/reconciler/target/internal/parallel"
)

// NewLastingRecords is like [NewRecords], but for objects that outlive the boot and belong to no
// network namespace, such as files. Such records are valid in every boot and in every
// namespace, and are synced to the disk: an object that is created after Put has returned has
// its record even after a power failure.
func NewLastingRecords[T any](store *Store, kind string) (*Records[T], error) {
	return newRecords[T](store, kind, true)
}

// attachmentSuffix is appended to the name of the file of a record.
const attachmentSuffix = ".data"

// Attach keeps data beside the record of a key until the record is removed. Call it
// before the record is put: data without a record is dropped when the records are opened.
// The data is not kept in memory.
func (r *Records[T]) Attach(key string, data []byte) error {
	err := r.writable()
	if err == nil {
		err = r.write(fileName(key)+attachmentSuffix, data)
	}
	if err == nil {
		err = r.sync()
	}
	if err != nil {
		return fmt.Errorf("keep what goes with the record of %q: %w", key, err)
	}
	return nil
}

// AttachmentFile returns the path of the file that attached data is kept in, for messages.
func (r *Records[T]) AttachmentFile(key string) string {
	return filepath.Join(r.dir, fileName(key)+attachmentSuffix)
}

// Attachment returns the attached data, if nobody else may have written it. The error matches fs.ErrNotExist if none has the name of the record. The caller has to
// detect damage, for example by a checksum in the record: isIt reports whether data is undamaged. If what is attached is not, what was set aside is
// looked through: the record may have been given its name again, and the data not.
func (r *Records[T]) Attachment(key string, isIt func(data []byte) bool) ([]byte, error) {
	data, err := readIf(r.AttachmentFile(key), isIt)
	if err == nil {
		return data, nil
	}
	aside, globErr := filepath.Glob(globEscaper.Replace(filepath.Join(r.dir, fileName(key))) + corruptSuffix + "*" + attachmentSuffix)
	if globErr != nil {
		return nil, globErr
	}
	for _, path := range aside {
		data, asideErr := readIf(path, isIt)
		if asideErr == nil {
			return data, nil
		}
		err = fmt.Errorf("%w; %w", err, asideErr)
	}
	return nil, err
}

// readIf reads a file for whose data a function returns true.
func readIf(path string, isIt func(data []byte) bool) ([]byte, error) {
	data, err := readFile(path)
	if err == nil && !isIt(data) {
		err = &fs.PathError{Op: "read", Path: path, Err: errOtherData}
	}
	return data, err
}

// globEscaper turns a path into a pattern that matches only that path.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

var errOtherData = errors.New("it is damaged, or was kept with another record")

// detach removes the attached data. It is called after the record was removed.
func (r *Records[T]) detach(key string) error {
	if !r.lasting {
		return nil
	}
	err := os.Remove(r.AttachmentFile(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropAttachments removes attachments without a record. It keeps those that were set aside as long as there is a record of that name, or one that
// was set aside: somebody may want to mend it.
func (r *Records[T]) dropAttachments(entries []os.DirEntry) error {
	if r.readOnly {
		return nil
	}
	known := maps.Clone(r.damaged)
	for key := range r.byKey {
		known[fileName(key)] = true
	}
	for _, entry := range entries {
		if wasSetAside(entry.Name()) {
			known[nameBefore(entry.Name())] = true
		}
	}
	for _, entry := range entries {
		name, attached := strings.CutSuffix(entry.Name(), attachmentSuffix)
		if attached && wasSetAside(name) {
			name = nameBefore(name)
		}
		if !attached || known[name] {
			continue
		}
		if err := os.Remove(filepath.Join(r.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// each calls a function for each key, and then syncs the changes to the disk. It returns the
// errors by key.
func (r *Records[T]) each(keys []string, do func(key string) error) map[string]error {
	if len(keys) == 0 {
		return nil
	}
	errs := map[string]error{}
	if err := r.writable(); err != nil {
		for _, key := range keys {
			errs[key] = fmt.Errorf("record %q: %w", key, err)
		}
		return errs
	}
	outcomes := make([]error, len(keys))
	if r.lasting {
		parallel.Each(len(keys), func(i int) { outcomes[i] = do(keys[i]) })
	} else {
		for i, key := range keys {
			outcomes[i] = do(key)
		}
	}
	unsynced := r.sync()
	r.store.noteChange()
	for i, key := range keys {
		if err := errors.Join(outcomes[i], unsynced); err != nil {
			errs[key] = err
		}
	}
	return errs
}

// write puts data into a file of the directory, whole or not at all.
func (r *Records[T]) write(name string, data []byte) error {
	if err := checkSize(data); err != nil {
		return err
	}
	return r.create(name, r.lasting, func(*os.File) ([]byte, error) { return data, nil })
}

// create is like write, but the data may depend on the file. If the file is not synced, it may be empty after a power failure.
func (r *Records[T]) create(name string, sync bool, content func(*os.File) ([]byte, error)) (err error) {
	file, err := os.CreateTemp(r.dir, temporaryPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	data, err := content(file)
	if err == nil {
		_, err = file.Write(data)
	}
	if err == nil && sync {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(r.dir, name))
}

// sync makes sure that the addition and removal of names survives a power
// failure.
func (r *Records[T]) sync() error {
	if !r.lasting {
		return nil
	}
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
