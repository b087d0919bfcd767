package cell

import (
	"reflect"

	"github.com/statehive/statehive/hive/internal/description"
)

// Config provides a struct of settings, of type C, to all modules. defaults holds the default values. A field that can be
// set from outside is tagged `flag:"config-dir" usage:"directory of documents"`; it is a string, bool, number,
// time.Duration or implements encoding.TextUnmarshaler, or is a list of such or a map to such from strings. The flag wins over
// the environment variable of the same name, such as STATEHIVE_CONFIG_DIR, that over the key of this name in the file of
// settings, and that over the default. As text, items of a list and pairs key=value of a map are separated by commas, and the
// flag may be repeated. The tag `shorthand:"d"` is for -d, `hidden:"true"` leaves the flag out of the usage, and so does
// `deprecated:"use --other"`, with a warning whenever it is given, also by the environment or the file. A field tagged `secret:"true"` is shown as Redacted, and not at
// all in errors. Embedded structs count as part of C. What looks like a setting and would never be set is an error, such as a
// misspelled tag, a tag "usage" without a flag, or flags in a struct that is not embedded or embedded by pointer.
//
// If C or *C has a method Validate() error, it is called before anything is constructed.
func Config[C any](defaults C) Cell {
	return &description.Config{Defaults: reflect.ValueOf(&defaults).Elem(), At: description.Caller()}
}

// Setting is one value of the configuration and where it comes from.
type Setting struct {
	Name    string       `json:"name"` // of the flag, and the key in a file
	Module  FullModuleID `json:"module"`
	Value   string       `json:"value"`            // as it would be given; Redacted for a secret
	Default string       `json:"default"`          // in the same form
	Origin  string       `json:"origin"`           // "default", "flag", "environment variable NAME" or file:line
	Usage   string       `json:"usage,omitempty"`  // what it is for
	Secret  bool         `json:"secret,omitempty"` // the value is not shown
	Err     error        `json:"-"`                // why the given value is invalid, or the file it names cannot be read
}

// Redacted stands for a secret that is not empty.
const Redacted = "(redacted)"
