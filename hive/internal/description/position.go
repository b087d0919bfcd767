package description

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
)

// Position is a position in the source code.
type Position struct {
	File string
	Line int
}

// Caller returns the position of the call of the function that calls it.
func Caller() Position {
	_, file, line, _ := runtime.Caller(2)
	return Position{File: file, Line: line}
}

// String includes the last directory, to distinguish files of the same name. Without a position is what the hive itself supplies.
func (p Position) String() string {
	if p.File == "" {
		return "built in"
	}
	folder := filepath.Base(filepath.Dir(p.File))
	return fmt.Sprintf("%s/%s:%d", folder, filepath.Base(p.File), p.Line)
}

// Function returns the name of a function, qualified by the last element of its package path, and its position.
func Function(fn reflect.Value) (string, Position) {
	f := runtime.FuncForPC(fn.Pointer())
	if f == nil {
		return fn.Type().String(), Position{}
	}
	file, line := f.FileLine(f.Entry())
	return path.Base(f.Name()), Position{File: file, Line: line}
}
