package description

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
)

// Position is a place in the source.
type Position struct {
	File string
	Line int
}

// Caller is where the caller of the function that calls it stands.
func Caller() Position {
	_, file, line, _ := runtime.Caller(2)
	return Position{File: file, Line: line}
}

// String has the last folder, so that files of one name can be told apart.
func (p Position) String() string {
	if p.File == "" {
		return "unknown position"
	}
	folder := filepath.Base(filepath.Dir(p.File))
	return fmt.Sprintf("%s/%s:%d", folder, filepath.Base(p.File), p.Line)
}

// Function returns the name of a function, with its package but without the package's path, and its place.
func Function(fn reflect.Value) (string, Position) {
	f := runtime.FuncForPC(fn.Pointer())
	if f == nil {
		return fn.Type().String(), Position{}
	}
	file, line := f.FileLine(f.Entry())
	return path.Base(f.Name()), Position{File: file, Line: line}
}
