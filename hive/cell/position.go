package cell

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// position is a place in the source.
type position struct {
	file string
	line int
}

// caller is where the caller of the function that calls it stands.
func caller() position {
	_, file, line, _ := runtime.Caller(2)
	return position{file: file, line: line}
}

// String has the last folder, so that files of one name can be told apart.
func (p position) String() string {
	if p.file == "" {
		return "unknown place"
	}
	folder := filepath.Base(filepath.Dir(p.file))
	return fmt.Sprintf("%s/%s:%d", folder, filepath.Base(p.file), p.line)
}
