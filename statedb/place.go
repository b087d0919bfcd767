package statedb

import (
	"fmt"
	"reflect"
	"runtime"
)

// place is where in the code a transaction began: as many return addresses as
// there are, the innermost first.
type place [3]uintptr

// callers is the place of the caller of its caller.
func callers() (p place) {
	const skipped = 3 // runtime.Callers, callers, and the method of DB
	runtime.Callers(skipped, p[:])
	return p
}

// entryOf is the place of a function that the transaction runs. It costs nothing,
// where walking up the stack would be a third of a transaction of one row.
func entryOf(fn func(*WriteTxn) error) place {
	if fn == nil {
		return place{}
	}
	return place{reflect.ValueOf(fn).Pointer() + 1} // as if returned to from its first instruction
}

// lines says what the place is called.
func (p place) lines() (lines []string) {
	n := 0
	for n < len(p) && p[n] != 0 {
		n++
	}
	if n == 0 {
		return nil
	}
	frames := runtime.CallersFrames(p[:n])
	for {
		f, more := frames.Next()
		lines = append(lines, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Function))
		if !more {
			return lines
		}
	}
}
