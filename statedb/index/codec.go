package index

import (
	"fmt"
	"net/netip"
	"reflect"
	"unsafe"
)

// Codec encodes keys of type K. It is made by [For]; the zero value encodes every
// key as the empty string.
type Codec[K any] struct {
	append     appendFunc
	prefixFree bool
	isString   bool
	room       int // number of bytes that most encodings need
	text       textCodec
}

// appendFunc appends the encoding of the value behind p, which points to a
// value of the type that the function was made for.
type appendFunc func(buf []byte, p unsafe.Pointer) []byte

// UnsupportedTypeError reports that a type cannot be a key, and which part of it
// is not supported.
type UnsupportedTypeError struct {
	Type reflect.Type // the key's type
	Part reflect.Type // the unsupported type inside it, or Type itself
	Path string       // the field that has type Part; empty for the type itself
}

// Error implements error.
func (e *UnsupportedTypeError) Error() string {
	where := ""
	if e.Path != "" {
		where = " (field " + e.Path + ")"
	}
	return fmt.Sprintf("%s%s cannot be a key: %s is none of bool, integers, string, []byte, [N]byte, netip.Addr, netip.Prefix, time.Time and structs of these",
		e.Type, where, e.Part)
}

// For returns the codec of K, or an [*UnsupportedTypeError].
func For[K any]() (Codec[K], error) {
	t := reflect.TypeFor[K]()
	enc, err := encoderOf(t, "")
	if err != nil {
		err.Type = t
		return Codec[K]{}, err
	}
	return Codec[K]{append: enc.append, prefixFree: enc.prefixFree, isString: t.Kind() == reflect.String, room: roomFor(t), text: textOf(t)}, nil
}

// roomFor returns the number of bytes that most keys of a type need.
func roomFor(t reflect.Type) int {
	switch {
	case t == reflect.TypeFor[netip.Prefix]():
		return maxPrefix
	case t.Kind() == reflect.Slice:
		return 0 // to grow by as many as there are
	}
	return int(t.Size())
}

// Append appends the encoding of key to buf. bytes.Compare orders encodings as
// the keys are ordered.
func (c Codec[K]) Append(buf []byte, key K) []byte {
	if c.append == nil { // For has returned an error
		return buf
	}
	return c.append(buf, unescaped(unsafe.Pointer(&key)))
}

// Encode returns the encoding of key. It must not be changed, because the encoding of
// a string is the memory of the string itself.
func (c Codec[K]) Encode(key K) []byte {
	if c.isString {
		s := *(*string)(unsafe.Pointer(&key)) // not unescaped: the result refers to it
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
	return c.Append(make([]byte, 0, c.room), key)
}

// unescaped hides from the compiler that a pointer is passed to a function that it does
// not know. None of these functions keeps the pointer, so keys need not be on the heap.
// While the pointer is a number the stack must not move. So nothing may be called
// meanwhile, not even the pointer checks that the compiler inserts for the race detector.
//
//go:nosplit
//go:nocheckptr
func unescaped(p unsafe.Pointer) unsafe.Pointer {
	address := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// PrefixFree reports whether no encoding is a prefix of another one, as for types of
// fixed width. If so, other bytes may follow an encoded key directly. Otherwise the key
// must be terminated first: see [AppendTerminated].
func (c Codec[K]) PrefixFree() bool { return c.prefixFree }

// AppendTerminated appends an encoded key in a form that other bytes may follow: no
// terminated key is a prefix of another one, and they are ordered as the keys are.
func AppendTerminated(buf, encoded []byte) []byte {
	return terminate(AppendEscaped(buf, encoded))
}

// Terminate terminates the encoded key in buf[begin:], as [AppendTerminated] does.
func Terminate(buf []byte, begin int) []byte { return terminate(escape(buf, begin)) }

// AppendEscaped appends the common prefix of the terminated forms of all keys that
// start with encoded, for a prefix search.
func AppendEscaped(buf, encoded []byte) []byte {
	start := len(buf)
	return escape(append(buf, encoded...), start)
}

// Parse parses the text form of a key: the text that the type's UnmarshalText accepts,
// a string or []byte as it is, a number in decimal, an [N]byte in hexadecimal, and a
// struct as its fields separated by commas. A comma or backslash inside a field is
// preceded by a backslash.
func (c Codec[K]) Parse(text string) (K, error) {
	var key K
	if c.text.parse == nil {
		return key, &UnsupportedTypeError{Type: reflect.TypeFor[K](), Part: reflect.TypeFor[K]()}
	}
	err := c.text.parse(text, reflect.ValueOf(&key).Elem())
	return key, err
}

// Format returns the text form that Parse reads.
func (c Codec[K]) Format(key K) string {
	if c.text.format == nil {
		return fmt.Sprint(key)
	}
	return c.text.format(reflect.ValueOf(&key).Elem())
}

// In a terminated key every zero byte is followed by the byte escaped, and two zero bytes
// end the key, so that the end sorts before any continuation.
const (
	zero    = 0x00
	escaped = 0xff
)

// escape rewrites buf[start:] in place.
func escape(buf []byte, start int) []byte {
	zeros := 0
	for _, b := range buf[start:] {
		if b == zero {
			zeros++
		}
	}
	if zeros == 0 {
		return buf
	}
	from := len(buf) - 1
	buf = append(buf, make([]byte, zeros)...)
	for to := len(buf) - 1; from >= start; from-- {
		if buf[from] == zero {
			buf[to] = escaped
			to--
		}
		buf[to] = buf[from]
		to--
	}
	return buf
}

func terminate(buf []byte) []byte { return append(buf, zero, zero) }
