package ownership

import (
	"errors"
	"fmt"
	"io/fs"
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

// Attachment returns the attached data, if nobody else may have written it. The error matches
// fs.ErrNotExist if there is none. The caller has to detect damage, for example by a checksum in
// the record.
func (r *Records[T]) Attachment(key string) ([]byte, error) {
	return readFile(r.AttachmentFile(key))
}

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

// dropAttachments removes attachments without a record. It keeps those of records that were set aside, and gives them back to records that have
// their names again.
func (r *Records[T]) dropAttachments(entries []os.DirEntry) error {
	if r.readOnly {
		return nil
	}
	recorded := map[string]bool{}
	for key := range r.byKey {
		recorded[fileName(key)] = true
	}
	for _, entry := range entries {
		name, attached := strings.CutSuffix(entry.Name(), attachmentSuffix)
		if !attached || recorded[name] {
			continue
		}
		if err := r.dropAttachment(name, recorded); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have been set aside since
			return err
		}
	}
	return nil
}

// dropAttachment removes the attachment of a name that no record has, or keeps it or gives it back.
func (r *Records[T]) dropAttachment(name string, recorded map[string]bool) error {
	path := filepath.Join(r.dir, name)
	if wasSetAside(name) {
		if is, err := exists(path); is || err != nil {
			return err
		}
		before := name[:strings.LastIndex(name, corruptSuffix)]
		has, err := exists(filepath.Join(r.dir, before+attachmentSuffix))
		if err != nil {
			return err
		}
		if recorded[before] && !has {
			return os.Rename(path+attachmentSuffix, filepath.Join(r.dir, before+attachmentSuffix))
		}
	}
	return os.Remove(path + attachmentSuffix)
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
	for i, key := range keys {
		if err := errors.Join(outcomes[i], unsynced); err != nil {
			errs[key] = err
		}
	}
	return errs
}

// write puts data into a file of the directory, whole or not at all.
func (r *Records[T]) write(name string, data []byte) (err error) {
	if err := checkSize(data); err != nil {
		return err
	}
	file, err := os.CreateTemp(r.dir, temporaryPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err == nil && r.lasting {
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
