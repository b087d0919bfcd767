package index

import (
	"testing"
	"unsafe"
)

// below calls fn with more of the stack in use.
//
//go:noinline
func below(frames int, fn func()) {
	if frames > 0 {
		below(frames-1, fn)
		return
	}
	fn()
}

// A key lies on the stack, which moves when it grows: not between taking the key's
// address and using it, as the checks of pointers that the race detector brings did.
func TestAKeyIsReadWhereTheStackIsNow(t *testing.T) {
	const near = 1 << 12
	var codec Codec[string]
	codec.append = func(buf []byte, p unsafe.Pointer) []byte {
		var here byte
		if distance := uintptr(p) - uintptr(unsafe.Pointer(&here)); distance > near {
			return append(buf, "far"...)
		}
		return append(buf, "near"...)
	}
	for frames := range 2000 {
		read := make(chan string)
		go func() { // with a small stack
			below(frames, func() { read <- string(codec.Append(make([]byte, 0, 8), "key")) })
		}()
		if got := <-read; got != "near" {
			t.Fatalf("%d frames down the key is %s from its address", frames, got)
		}
	}
}
