package pool

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Goroutine returns the prefix of the calling goroutine's stack, such as "goroutine 7 ".
func Goroutine() []byte {
	id, _, _ := bytes.Cut(debug.Stack(), []byte("["))
	return id
}

// StackOf returns the stack of a goroutine.
func StackOf(id []byte) []byte {
	buf := make([]byte, 1<<16)
	for n := runtime.Stack(buf, true); n == len(buf) && n < 1<<26; n = runtime.Stack(buf, true) {
		buf = make([]byte, 4*len(buf))
	}
	for section := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.HasPrefix(section, id) {
			return bytes.TrimRight(section, "\x00")
		}
	}
	return fmt.Appendf(nil, "%sno longer exists", id)
}
