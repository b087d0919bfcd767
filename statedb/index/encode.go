package index

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"time"
	"unsafe"
)

// encoder encodes the values of a type. If prefixFree is true, no encoding is a
// prefix of another one.
type encoder struct {
	append     appendFunc
	prefixFree bool
}

func encoderOf(t reflect.Type, path string) (encoder, *UnsupportedTypeError) {
	switch t {
	case reflect.TypeFor[netip.Addr]():
		return encoder{appendAddr, true}, nil
	case reflect.TypeFor[netip.Prefix]():
		return encoder{appendPrefix, true}, nil
	case reflect.TypeFor[time.Time]():
		return encoder{appendTime, true}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return encoder{appendBool, true}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return encoder{integer(t.Size(), true), true}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return encoder{integer(t.Size(), false), true}, nil
	case reflect.String:
		return encoder{appendString, false}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return encoder{appendSlice, false}, nil
		}
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return encoder{byteArray(t.Len()), true}, nil
		}
	case reflect.Struct:
		return structEncoder(t, path)
	}
	return encoder{}, &UnsupportedTypeError{Type: t, Part: t, Path: path}
}

type fieldEncoder struct {
	offset uintptr
	append appendFunc
	escape bool
}

func structEncoder(t reflect.Type, path string) (encoder, *UnsupportedTypeError) {
	if t.NumField() == 0 {
		return encoder{}, &UnsupportedTypeError{Type: t, Part: t, Path: path}
	}
	fields := make([]fieldEncoder, t.NumField())
	var last encoder
	for i := range fields {
		f := t.Field(i)
		name := f.Name
		if path != "" {
			name = path + "." + name
		}
		enc, err := encoderOf(f.Type, name)
		if err != nil {
			return encoder{}, err
		}
		isLast := i == len(fields)-1
		fields[i] = fieldEncoder{f.Offset, enc.append, !enc.prefixFree && !isLast}
		last = enc
	}
	return encoder{func(buf []byte, p unsafe.Pointer) []byte {
		for i := range fields {
			f := &fields[i]
			start := len(buf)
			buf = f.append(buf, unsafe.Add(p, f.offset))
			if f.escape {
				buf = terminate(escape(buf, start))
			}
		}
		return buf
	}, last.prefixFree}, nil
}

func appendBool(buf []byte, p unsafe.Pointer) []byte {
	if *(*bool)(p) {
		return append(buf, 1)
	}
	return append(buf, 0)
}

// integer encodes integers in big-endian order. The sign bit of signed integers is
// flipped, so that negative numbers sort first.
func integer(size uintptr, signed bool) appendFunc {
	var flip uint64
	if signed {
		flip = 1 << (size*8 - 1)
	}
	switch size {
	case 1:
		return func(buf []byte, p unsafe.Pointer) []byte { return append(buf, *(*uint8)(p)^uint8(flip)) }
	case 2:
		return func(buf []byte, p unsafe.Pointer) []byte {
			return binary.BigEndian.AppendUint16(buf, *(*uint16)(p)^uint16(flip))
		}
	case 4:
		return func(buf []byte, p unsafe.Pointer) []byte {
			return binary.BigEndian.AppendUint32(buf, *(*uint32)(p)^uint32(flip))
		}
	default:
		return func(buf []byte, p unsafe.Pointer) []byte {
			return binary.BigEndian.AppendUint64(buf, *(*uint64)(p)^flip)
		}
	}
}

func appendString(buf []byte, p unsafe.Pointer) []byte { return append(buf, *(*string)(p)...) }

func appendSlice(buf []byte, p unsafe.Pointer) []byte { return append(buf, *(*[]byte)(p)...) }

func byteArray(n int) appendFunc {
	return func(buf []byte, p unsafe.Pointer) []byte {
		return append(buf, unsafe.Slice((*byte)(p), n)...)
	}
}

func appendAddr(buf []byte, p unsafe.Pointer) []byte { return addr(buf, *(*netip.Addr)(p)) }

// addr appends the length of the address in bytes, so that families sort as in
// Addr.Compare, then the address and, for IPv6, the zone.
func addr(buf []byte, a netip.Addr) []byte {
	buf = append(buf, byte(a.BitLen()/8))
	buf = append(buf, a.AsSlice()...)
	if a.BitLen() == 128 {
		start := len(buf)
		buf = append(buf, a.Zone()...)
		buf = terminate(escape(buf, start))
	}
	return buf
}

// maxPrefix is the length of the longest encoding of a network.
const maxPrefix = 1 + 16 + 1 + 16

func appendPrefix(buf []byte, p unsafe.Pointer) []byte {
	prefix := *(*netip.Prefix)(p)
	a := prefix.Addr()
	if !prefix.IsValid() {
		return addr(append(buf, 0), a)
	}
	buf = append(buf, byte(a.BitLen()/8))
	buf = append(buf, prefix.Masked().Addr().AsSlice()...)
	buf = append(buf, byte(prefix.Bits()))
	return append(buf, a.AsSlice()...)
}

func appendTime(buf []byte, p unsafe.Pointer) []byte {
	t := *(*time.Time)(p)
	buf = binary.BigEndian.AppendUint64(buf, uint64(t.Unix())^(1<<63))
	return binary.BigEndian.AppendUint32(buf, uint32(t.Nanosecond()))
}
