package managedfile

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// What becomes of a file when its document goes: [File.OnDelete].
const (
	// Remove removes the file, unless it was there before and was not adopted.
	Remove = "remove"
	// Restore brings back what was there before: the file with its attributes, or none.
	Restore = "restore"
	// Keep leaves the file as it is.
	Keep = "keep"
)

// MaxSize is the maximal size in bytes of a declared file, and of one that is kept in order to
// be restored.
const MaxSize = 1 << 20

// File is the row: a regular file with its content.
type File struct {
	// Path is absolute and clean.
	Path string `yaml:"path" json:"path" schema:"required" doc:"Absolute path of the file."`
	// Content is the content of the file, byte for byte. Either it or Template is set.
	Content *string `yaml:"content" json:"content,omitempty" doc:"What is in the file; give this or template."`
	// Template is the template of the content: see the package comment.
	Template *string `yaml:"template" json:"template,omitempty" doc:"Text of a Go template whose output is the content."`
	Mode     Mode    `yaml:"mode" json:"mode" doc:"Permission bits in octal, as 0644, which is the default. With the set-group-ID bit the owner has to be root."`
	// Owner and Group are names or IDs; if empty, those of the process.
	Owner string `yaml:"owner" json:"owner,omitempty" doc:"Name or number of the owner; without it the user of the agent."`
	Group string `yaml:"group" json:"group,omitempty" doc:"Name or number of the group; without it that of the agent."`
	// OnDelete is Remove, Restore or Keep.
	OnDelete string `yaml:"onDelete" json:"onDelete" schema:"enum=remove restore keep" doc:"What becomes of the file when its document goes: remove, restore or keep; remove is the default."`
	// Adopt takes over a file that others have made, whatever its content.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Whether a file that others made is taken over."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// Key identifies a file: its path.
type Key string

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", File.Key)

// Schema declares the table "files".
func Schema() statedb.Schema[File] {
	return reconciler.Reconciled(statedb.Schema[File]{Name: "files", Primary: ByKey})
}

// Default returns the values of fields that are missing in a document.
func Default() File { return File{Mode: 0o644, OnDelete: Remove} }

// Key returns the path.
func (f File) Key() Key { return Key(f.Path) }

// Equal reports whether two rows declare the same file.
func (f File) Equal(other File) bool {
	sameText := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	if !sameText(f.Content, other.Content) || !sameText(f.Template, other.Template) {
		return false
	}
	f.Content, f.Template, other.Content, other.Template = nil, nil, nil, nil
	return f == other
}

// GetStatus implements reconciler.Reconcilable.
func (f File) GetStatus() reconciler.Status { return f.Status }

// WithStatus implements reconciler.Reconcilable.
func (f File) WithStatus(status reconciler.Status) File {
	f.Status = status
	return f
}

// Normalized checks the row and returns it with defaults for empty fields, except the mode.
// Errors are of type *reconciler.FieldError.
func (f File) Normalized() (File, error) {
	f.OnDelete = cmp.Or(f.OnDelete, Remove)
	for _, check := range []struct {
		field string
		err   error
	}{
		{"path", checkPath(f.Path)},
		{"content", f.checkContent()},
		{"template", f.checkTemplate()},
		{"mode", f.checkMode()},
		{"owner", checkOwner(f.Owner)},
		{"group", checkOwner(f.Group)},
		{"onDelete", checkOnDelete(f.OnDelete)},
	} {
		if check.err != nil {
			return f, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	return f, nil
}

func (f File) checkContent() error {
	switch {
	case f.Content == nil && f.Template == nil:
		return errors.New("it is missing, and so is template: expected one of them; an empty file has the content \"\"")
	case f.Content == nil:
		return nil
	case f.Template != nil:
		return errors.New("it is given, and template as well: expected one of them")
	case len(*f.Content) > MaxSize:
		return fmt.Errorf("it has %d bytes, expected at most %d", len(*f.Content), MaxSize)
	}
	return nil
}

func (f File) checkTemplate() error {
	if f.Template == nil {
		return nil
	}
	if *f.Template == "" {
		return errors.New("it is empty; expected a template, or the content \"\" for an empty file")
	}
	_, err := parseTemplate(*f.Template)
	return err
}

func checkOnDelete(what string) error {
	switch what {
	case Remove, Restore, Keep:
		return nil
	}
	return fmt.Errorf("%q is unknown, expected %s, %s or %s", what, Remove, Restore, Keep)
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	if err := checkPath(string(text)); err != nil {
		return err
	}
	*k = Key(text)
	return nil
}

// Mode holds the permission bits of a file. Its text form is that of chmod(1), with four octal
// digits.
type Mode uint32

// maxMode has all bits that chmod(1) knows.
const maxMode Mode = 0o7777

func (f File) checkMode() error {
	switch {
	case f.Mode > maxMode:
		return fmt.Errorf("%#o is out of range, expected at most %v", uint32(f.Mode), maxMode)
	// The owner of a file can change it through a mapping, which leaves the bit, and act as a group that is not the owner's.
	case f.Mode&unix.S_ISGID != 0 && f.Owner != "" && f.Owner != "root" && f.Owner != "0":
		return fmt.Errorf("%v has the set-group-ID bit, and the owner is %s: expected root, since any other owner could change what runs with the rights of the group", f.Mode, f.Owner)
	}
	return nil
}

// String returns the text form.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || len(text) != 4 {
		return errors.New("not a mode, expected four octal digits, as 0644")
	}
	*m = Mode(number)
	return nil
}
