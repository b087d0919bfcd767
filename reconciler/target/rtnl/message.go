package rtnl

import (
	"encoding/binary"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

// Request is a message to the kernel, without its header: a fixed part that depends on the
// type, and then attributes.
type Request struct {
	Type  uint16 // as unix.RTM_NEWROUTE
	Flags uint16 // in addition to NLM_F_REQUEST, as unix.NLM_F_CREATE
	Data  []byte
}

// PutUint32 sets a number in the fixed part.
func (r *Request) PutUint32(at int, value uint32) { binary.NativeEndian.PutUint32(r.Data[at:], value) }

// Add appends an attribute.
func (r *Request) Add(kind uint16, value []byte) {
	r.header(kind, len(value))
	r.Data = append(r.Data, value...)
	r.pad()
}

// AddUint32 appends an attribute that is a number.
func (r *Request) AddUint32(kind uint16, value uint32) {
	r.header(kind, 4)
	r.Data = binary.NativeEndian.AppendUint32(r.Data, value)
}

// AddString appends an attribute that is a text with a zero byte at its end.
func (r *Request) AddString(kind uint16, value string) {
	r.header(kind, len(value)+1)
	r.Data = append(append(r.Data, value...), 0)
	r.pad()
}

// Nest appends an attribute that contains the attributes which add appends.
func (r *Request) Nest(kind uint16, add func()) {
	at := len(r.Data)
	r.header(kind, 0)
	add()
	binary.NativeEndian.PutUint16(r.Data[at:], uint16(len(r.Data)-at))
}

func (r *Request) header(kind uint16, size int) {
	r.Data = binary.NativeEndian.AppendUint16(r.Data, uint16(unix.SizeofRtAttr+size))
	r.Data = binary.NativeEndian.AppendUint16(r.Data, kind)
}

func (r *Request) pad() {
	for len(r.Data)%unix.NLMSG_ALIGNTO != 0 {
		r.Data = append(r.Data, 0)
	}
}

// appendTo appends the whole message to b, with a flag that asks for an answer.
func (r *Request) appendTo(b []byte, seq uint32, flags uint16) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(r.Data)))
	b = binary.NativeEndian.AppendUint16(b, r.Type)
	b = binary.NativeEndian.AppendUint16(b, r.Flags|unix.NLM_F_REQUEST|flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel fills in the port
	b = append(b, r.Data...)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// messages yields the messages in what was received. Their data lie in b. What
// follows a truncated message is left out.
func messages(b []byte) iter.Seq[syscall.NetlinkMessage] {
	return func(yield func(syscall.NetlinkMessage) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return
			}
			m := syscall.NetlinkMessage{
				Header: syscall.NlMsghdr{
					Len:   uint32(size),
					Type:  binary.NativeEndian.Uint16(b[4:]),
					Flags: binary.NativeEndian.Uint16(b[6:]),
					Seq:   binary.NativeEndian.Uint32(b[8:]),
					Pid:   binary.NativeEndian.Uint32(b[12:]),
				},
				Data: b[unix.SizeofNlMsghdr:size],
			}
			if !yield(m) {
				return
			}
			b = b[min(len(b), align(size)):]
		}
	}
}

// Attributes yields the attributes in b: their types without flags, and values
// that lie in b. What follows a truncated attribute is left out.
func Attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofRtAttr || size > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min(len(b), align(size)):]
		}
	}
}

// Uint32 reads a number; it returns 0 if b is too short.
func Uint32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// String reads a text up to its zero byte.
func String(b []byte) string { return unix.ByteSliceToString(b) }

func align(size int) int { return (size + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }
