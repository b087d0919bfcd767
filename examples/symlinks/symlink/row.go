// Package symlink is an example of a kind: documents that declare symbolic links.
// Documentation/kinds.md explains it step by step.
package symlink

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Symlink is the row: a symbolic link and its target.
type Symlink struct {
	Path   string            `yaml:"path" json:"path" schema:"required" doc:"Absolute path of the link."`
	To     string            `yaml:"to" json:"to" schema:"required" doc:"Where it leads, as given to ln -s."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// GetStatus implements reconciler.Reconcilable.
func (s Symlink) GetStatus() reconciler.Status { return s.Status }

// WithStatus implements reconciler.Reconcilable.
func (s Symlink) WithStatus(status reconciler.Status) Symlink {
	s.Status = status
	return s
}

// ByPath is the primary index.
var ByPath = statedb.NewIndex("path", func(s Symlink) string { return s.Path })

// Schema declares the table "symlinks".
func Schema() statedb.Schema[Symlink] {
	return reconciler.Reconciled(statedb.Schema[Symlink]{Name: "symlinks", Primary: ByPath})
}

// Normalized checks a row and returns it in the form in which it is stored: one link
// has one path.
func (s Symlink) Normalized() (Symlink, error) {
	if !filepath.IsAbs(s.Path) {
		return s, &reconciler.FieldError{Field: "path", Err: fmt.Errorf("%q is not an absolute path, expected one such as /etc/localtime", s.Path)}
	}
	if s.To == "" {
		return s, &reconciler.FieldError{Field: "to", Err: errors.New("missing, expected where the link leads")}
	}
	s.Path = filepath.Clean(s.Path)
	return s, nil
}
