package index

import (
	"fmt"
	"net/netip"
	"reflect"
	"unsafe"
)

// Codec encodes keys of type K. The zero value encodes every key as nothing: see
// [For].
type Codec[K any] struct {
	append     appendFunc
	prefixFree bool
	isString   bool
	room       int // for most encodings
	text       textCodec
}

// appendFunc appends the encoding of the value behind p, which points to a
// value of the type that the function was made for.
type appendFunc func(buf []byte, p unsafe.Pointer) []byte

// UnsupportedTypeError says that a type cannot be a key, and which part of it
// stands in the way.
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

// roomFor is the bytes that most keys of a type need.
func roomFor(t reflect.Type) int {
	switch {
	case t == reflect.TypeFor[netip.Prefix]():
		return maxPrefix
	case t.Kind() == reflect.Slice:
		return 0 // to grow by as many as there are
	}
	return int(t.Size())
}

// Append appends the encoding of key to buf. Encodings compare, by
// bytes.Compare, as the keys do.
func (c Codec[K]) Append(buf []byte, key K) []byte {
	if c.append == nil { // For has returned an error
		return buf
	}
	return c.append(buf, unescaped(unsafe.Pointer(&key)))
}

// Encode returns the encoding of key, which must not be changed: that of a string
// is the string itself.
func (c Codec[K]) Encode(key K) []byte {
	if c.isString {
		s := *(*string)(unsafe.Pointer(&key)) // not unescaped: the result refers to it
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
	return c.Append(make([]byte, 0, c.room), key)
}

// unescaped hides from the compiler that a function which it does not know gets
// the pointer: none of ours keeps it, so that keys need not lie in the heap. While it
// is no pointer the stack must not move: nothing may be called, and with the race
// detector the compiler would call checks of pointers.
//
//go:nosplit
//go:nocheckptr
func unescaped(p unsafe.Pointer) unsafe.Pointer {
	address := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// PrefixFree says whether no encoding is a prefix of another one, as with types
// of fixed width: then anything may follow a key as it stands. Otherwise
// [AppendTerminated] must be used to put something behind it.
func (c Codec[K]) PrefixFree() bool { return c.prefixFree }

// AppendTerminated appends an encoded key so that anything may follow it: no
// result is a prefix of another's, and the order stays that of the keys.
func AppendTerminated(buf, encoded []byte) []byte {
	return terminate(AppendEscaped(buf, encoded))
}

// Terminate does so to the encoded key that buf ends with, from begin on.
func Terminate(buf []byte, begin int) []byte { return terminate(escape(buf, begin)) }

// AppendEscaped appends what the terminated forms of all keys that start with
// encoded have in common: what a prefix search looks for.
func AppendEscaped(buf, encoded []byte) []byte {
	start := len(buf)
	return escape(append(buf, encoded...), start)
}

// Parse reads a key from its text form: what the type's UnmarshalText takes, a
// string or []byte as it stands, a number in decimal, [N]byte in hexadecimal, and
// a struct as its fields with commas between. A comma or backslash inside a
// field has a backslash before it.
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

// In a terminated key every zero byte is followed by escaped, and two zero bytes
// end it: the end sorts before any continuation.
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
