package index_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/index"
)

type (
	name   string
	port   uint16
	level  int8
	octets [4]byte
	plain  struct {
		Name string
		Port port
	}
	nested struct {
		Family bool
		Inner  plain
		Raw    []byte
		Level  level
		Tail   string
	}
	hidden struct {
		name string
		id   uint8
	}
)

// String makes the text form of a number tell another story than its key.
func (l level) String() string { return fmt.Sprintf("level-%d", int8(l)) }

func comparePlain(a, b plain) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// texts draws strings in which the bytes that encoding gives a meaning are common.
func texts() *rapid.Generator[string] {
	letters := rapid.SampledFrom([]byte{0, 0, 1, 'a', 'b', ',', '\\', 0xfe, 0xff})
	return rapid.Map(rapid.SliceOfN(letters, 0, 5), func(b []byte) string { return string(b) })
}

func addrs() *rapid.Generator[netip.Addr] {
	few := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 127, 128, 255}), 16, 16)
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		b := few.Draw(t, "bytes")
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return netip.Addr{}
		case 1:
			return netip.AddrFrom16([16]byte(b)).WithZone(rapid.SampledFrom([]string{"a", "eth0", "eth", "b\x00", "b"}).Draw(t, "zone"))
		case 2:
			return netip.AddrFrom16([16]byte(b))
		case 3:
			return netip.AddrFrom16(netip.AddrFrom4([4]byte(b)).As16())
		default:
			return netip.AddrFrom4([4]byte(b))
		}
	})
}

func prefixes() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		return netip.PrefixFrom(addrs().Draw(t, "address"), rapid.IntRange(-1, 40).Draw(t, "bits"))
	})
}

func times() *rapid.Generator[time.Time] {
	zones := []*time.Location{time.UTC, time.FixedZone("east", 3600)}
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.IntRange(0, 9).Draw(t, "zero if 0") == 0 {
			return time.Time{}
		}
		seconds := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-6e10, 2e11)).Draw(t, "seconds")
		return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(rapid.SampledFrom(zones).Draw(t, "zone"))
	})
}

func plains() *rapid.Generator[plain] {
	return rapid.Custom(func(t *rapid.T) plain {
		return plain{texts().Draw(t, "name"), port(rapid.Uint16Range(0, 300).Draw(t, "port"))}
	})
}

func nesteds() *rapid.Generator[nested] {
	return rapid.Custom(func(t *rapid.T) nested {
		return nested{
			rapid.Bool().Draw(t, "family"), plains().Draw(t, "inner"),
			[]byte(texts().Draw(t, "raw")), level(rapid.Int8().Draw(t, "level")), texts().Draw(t, "tail"),
		}
	})
}

func compareNested(a, b nested) int {
	return cmp.Or(compareBool(a.Family, b.Family), comparePlain(a.Inner, b.Inner), bytes.Compare(a.Raw, b.Raw),
		cmp.Compare(a.Level, b.Level), cmp.Compare(a.Tail, b.Tail))
}

// ordered draws integers of which many are near 0 or at the ends.
func ordered[K cmp.Ordered](all *rapid.Generator[K], near ...K) *rapid.Generator[K] {
	return rapid.OneOf(all, rapid.SampledFrom(near))
}

func TestEncodingsCompareAsKeysDo(t *testing.T) {
	order(t, rapid.Bool(), compareBool)
	order(t, ordered(rapid.Int(), -1, 0, 1, -256, 255), cmp.Compare[int])
	order(t, ordered(rapid.Int8(), -1, 0, 1, -128, 127), cmp.Compare[int8])
	order(t, ordered(rapid.Int16(), -1, 0, 1, -256, 255), cmp.Compare[int16])
	order(t, ordered(rapid.Int32(), -1, 0, 1, -65536, 255), cmp.Compare[int32])
	order(t, ordered(rapid.Int64(), -1, 0, 1, -1<<63, 1<<62), cmp.Compare[int64])
	order(t, rapid.Uint(), cmp.Compare[uint])
	order(t, rapid.Uint8(), cmp.Compare[uint8])
	order(t, ordered(rapid.Uint16(), 255, 256), cmp.Compare[uint16])
	order(t, ordered(rapid.Uint32(), 255, 256), cmp.Compare[uint32])
	order(t, ordered(rapid.Uint64(), 255, 256), cmp.Compare[uint64])
	order(t, rapid.Uintptr(), cmp.Compare[uintptr])
	order(t, texts(), cmp.Compare[string])
	order(t, rapid.Map(texts(), func(s string) name { return name(s) }), cmp.Compare[name])
	order(t, rapid.Map(texts(), func(s string) []byte { return []byte(s) }), bytes.Compare)
	order(t, rapid.Map(rapid.SliceOfN(rapid.Byte(), 4, 4), func(b []byte) octets { return octets(b) }),
		func(a, b octets) int { return bytes.Compare(a[:], b[:]) })
	order(t, rapid.Map(rapid.Int8(), func(i int8) level { return level(i) }), cmp.Compare[level])
	order(t, rapid.Map(rapid.Int64(), func(i int64) time.Duration { return time.Duration(i) }), cmp.Compare[time.Duration])
	order(t, addrs(), netip.Addr.Compare)
	order(t, prefixes(), comparePrefix)
	order(t, times(), time.Time.Compare)
	order(t, plains(), comparePlain)
	order(t, nesteds(), compareNested)
	order(t, rapid.Map(plains(), func(p plain) hidden { return hidden{p.Name, uint8(p.Port)} }),
		func(a, b hidden) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
}

// comparePrefix is the order that the standard library documents; among invalid
// prefixes we go on by address.
func comparePrefix(a, b netip.Prefix) int {
	if !a.IsValid() && !b.IsValid() {
		return a.Addr().Compare(b.Addr())
	}
	return a.Compare(b)
}

// order compares encodings of keys with the keys, alone and with primary keys
// behind them.
func order[K any](t *testing.T, keys *rapid.Generator[K], compare func(a, b K) int) {
	t.Run(reflect.TypeFor[K]().String(), func(t *testing.T) {
		codec, err := index.For[K]()
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
			if rapid.IntRange(0, 3).Draw(t, "same if 0") == 0 {
				b = a
			}
			want := compare(a, b)
			encodedA, encodedB := codec.Append(nil, a), codec.Append(nil, b)
			if encoded := codec.Encode(a); !bytes.Equal(encoded, encodedA) {
				t.Fatalf("%#v is encoded as %x and appended as %x", a, encoded, encodedA)
			}
			if got := bytes.Compare(encodedA, encodedB); got != want {
				t.Fatalf("%#v and %#v compare as %d, encoded as %x and %x %d", a, b, want, encodedA, encodedB, got)
			}
			if codec.PrefixFree() && want != 0 && (bytes.HasPrefix(encodedA, encodedB) || bytes.HasPrefix(encodedB, encodedA)) {
				t.Fatalf("%x and %x: one is a prefix of the other", encodedA, encodedB)
			}
			primaryA, primaryB := texts().Draw(t, "primary a"), texts().Draw(t, "primary b")
			fullA, fullB := composite(codec, a, primaryA), composite(codec, b, primaryB)
			if got, want := bytes.Compare(fullA, fullB), cmp.Or(want, cmp.Compare(primaryA, primaryB)); got != want {
				t.Fatalf("(%#v, %q) and (%#v, %q) compare as %d, encoded as %x and %x %d", a, primaryA, b, primaryB, want, fullA, fullB, got)
			}
		})
	})
}

// composite is what a secondary index stores.
func composite[K any](codec index.Codec[K], key K, primary string) []byte {
	encoded := codec.Append(nil, key)
	if !codec.PrefixFree() {
		encoded = index.AppendTerminated(nil, encoded)
	}
	return append(encoded, primary...)
}

func TestAppendKeepsWhatIsInTheBuffer(t *testing.T) {
	codec, err := index.For[nested]()
	if err != nil {
		t.Fatal(err)
	}
	key := nested{Inner: plain{Name: "a\x00b"}, Raw: []byte{0}, Tail: "\x00"}
	alone := codec.Append(nil, key)
	if got := codec.Append([]byte("\x00kept"), key); !bytes.Equal(got, append([]byte("\x00kept"), alone...)) {
		t.Errorf("appended %q, expected it behind what was there", got)
	}
	if got := index.AppendTerminated([]byte("\x00kept"), alone); !bytes.Equal(got[5:], index.AppendTerminated(nil, alone)) || string(got[:5]) != "\x00kept" {
		t.Errorf("terminated %q", got)
	}
}

func TestEncodedBytesAreNotThoseOfTheKey(t *testing.T) {
	codec, _ := index.For[[]byte]()
	key := []byte("abc")
	encoded, appended := codec.Encode(key), codec.Append(nil, key)
	key[0] = 'x'
	if string(encoded) != "abc" || string(appended) != "abc" {
		t.Errorf("the encodings became %q and %q when the key was changed", encoded, appended)
	}
}

// A string that is made in the call lies on the stack, unless the compiler knows
// that the encoding refers to it.
func TestAnEncodedStringStaysAsItIs(t *testing.T) {
	codec, _ := index.For[string]()
	encoded := encodeMade(codec, "ab")
	if overwriteStack(100); string(encoded) != "abc" {
		t.Errorf("the encoding became %q", encoded)
	}
}

//go:noinline
func encodeMade(codec index.Codec[string], s string) []byte { return codec.Encode(s + "c") }

//go:noinline
func overwriteStack(frames int) (sum byte) {
	var frame [64]byte
	for i := range frame {
		frame[i] = 'x' + byte(frames)
	}
	if frames > 0 {
		sum = overwriteStack(frames - 1)
	}
	return sum + frame[frames%len(frame)]
}

func TestTerminatedKeysOrderAndAreNeverPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := []byte(texts().Draw(t, "a")), []byte(texts().Draw(t, "b"))
		terminatedA, terminatedB := index.AppendTerminated(nil, a), index.AppendTerminated(nil, b)
		if bytes.Compare(a, b) != bytes.Compare(terminatedA, terminatedB) {
			t.Fatalf("%q and %q change their order: %x, %x", a, b, terminatedA, terminatedB)
		}
		if !bytes.Equal(a, b) && bytes.HasPrefix(terminatedA, terminatedB) {
			t.Fatalf("%q terminated begins with %q terminated", a, b)
		}
		if got, want := bytes.HasPrefix(terminatedA, index.AppendEscaped(nil, b)), bytes.HasPrefix(a, b); got != want {
			t.Fatalf("%q begins with %q: %t, escaped: %t", a, b, want, got)
		}
	})
}

func TestTextFormReadsBackAsTheSameKey(t *testing.T) {
	roundTrip(t, rapid.Bool())
	roundTrip(t, rapid.Int())
	roundTrip(t, rapid.Uint8())
	roundTrip(t, rapid.Uintptr())
	roundTrip(t, texts())
	roundTrip(t, rapid.Map(texts(), func(s string) name { return name(s) }))
	roundTrip(t, rapid.Map(texts(), func(s string) []byte { return []byte(s) }))
	roundTrip(t, rapid.Map(rapid.SliceOfN(rapid.Byte(), 4, 4), func(b []byte) octets { return octets(b) }))
	roundTrip(t, rapid.Map(rapid.Int8(), func(i int8) level { return level(i) }))
	roundTrip(t, rapid.Map(rapid.Int64(), func(i int64) time.Duration { return time.Duration(i) }))
	roundTrip(t, addrs().Filter(func(a netip.Addr) bool { return !strings.Contains(a.Zone(), "\x00") }))
	roundTrip(t, prefixes().Filter(netip.Prefix.IsValid))
	roundTrip(t, times().Filter(func(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9998 }))
	roundTrip(t, plains())
	roundTrip(t, nesteds())
}

func roundTrip[K any](t *testing.T, keys *rapid.Generator[K]) {
	t.Run(reflect.TypeFor[K]().String(), func(t *testing.T) {
		codec, err := index.For[K]()
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			key := keys.Draw(t, "key")
			text := codec.Format(key)
			back, err := codec.Parse(text)
			if err != nil {
				t.Fatalf("%#v has the text %q: %v", key, text, err)
			}
			if !bytes.Equal(codec.Append(nil, key), codec.Append(nil, back)) {
				t.Fatalf("%#v has the text %q, which reads as %#v", key, text, back)
			}
		})
	})
}

func TestTextForms(t *testing.T) {
	text(t, 42, "42")
	text(t, name("eth0"), "eth0")
	text(t, level(-3), "-3")
	text(t, octets{0xde, 0xad, 0, 1}, "dead0001")
	text(t, netip.MustParsePrefix("10.0.0.0/8"), "10.0.0.0/8")
	text(t, plain{"eth0", 80}, "eth0,80")
	text(t, plain{`a,b\c`, 80}, `a\,b\\c,80`)
}

func text[K any](t *testing.T, key K, want string) {
	t.Helper()
	codec, err := index.For[K]()
	if err != nil {
		t.Fatal(err)
	}
	if got := codec.Format(key); got != want {
		t.Errorf("%#v has the text %q, expected %q", key, got, want)
	}
}

func TestTextsThatAreNoKeysAreRefused(t *testing.T) {
	refused[int](t, "", "not a whole number that fits int")
	refused[int8](t, "128", "not a whole number that fits int8")
	refused[int](t, "0x10", "not a whole number")
	refused[uint](t, "-1", "not a whole number that fits uint")
	refused[bool](t, "maybe", "not true or false")
	refused[octets](t, "abc", "not 4 bytes in hexadecimal")
	refused[octets](t, "zzzzzzzz", "not 4 bytes in hexadecimal")
	refused[netip.Addr](t, "10.0.0", "10.0.0")
	refused[plain](t, "eth0", "has 1 parts, expected 2: Name,Port")
	refused[plain](t, "eth0,x", `Port: "x" is not a whole number`)
	refused[hidden](t, "a,1", "has no text form")
}

func refused[K any](t *testing.T, text, message string) {
	t.Helper()
	codec, err := index.For[K]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Parse(text); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("%q as %s: error %v, expected one with %q", text, reflect.TypeFor[K](), err, message)
	}
}

func TestUnsupportedTypesAreErrors(t *testing.T) {
	unsupported[float64](t, "float64 cannot be a key")
	unsupported[any](t, "interface {} cannot be a key")
	unsupported[*int](t, "*int cannot be a key")
	unsupported[[]string](t, "[]string cannot be a key")
	unsupported[[2]int](t, "[2]int cannot be a key")
	unsupported[map[string]int](t, "map[string]int cannot be a key")
	unsupported[func()](t, "func() cannot be a key")
	unsupported[struct{}](t, "struct {} cannot be a key")
	unsupported[struct{ A struct{ B float32 } }](t, "(field A.B) cannot be a key: float32 is none of")
}

func unsupported[K any](t *testing.T, message string) {
	t.Helper()
	codec, err := index.For[K]()
	var typed *index.UnsupportedTypeError
	if !errors.As(err, &typed) || typed.Type != reflect.TypeFor[K]() || !strings.Contains(err.Error(), message) {
		t.Errorf("%s: error %v, expected one with %q", reflect.TypeFor[K](), err, message)
	}
	var key K
	if len(codec.Append(nil, key)) != 0 { // what is left of it harms nobody
		t.Error("a codec without a type encodes something")
	}
	if _, err := codec.Parse("1"); err == nil {
		t.Error("a codec without a type parses something")
	}
	_ = codec.Format(key)
}

func TestAppendingAKeyAllocatesNothing(t *testing.T) {
	codec, err := index.For[uint64]()
	if err != nil {
		t.Fatal(err)
	}
	buf, key := make([]byte, 0, 16), uint64(7)
	if n := testing.AllocsPerRun(100, func() { buf = codec.Append(buf[:0], key) }); n != 0 {
		t.Errorf("%v allocations for each key", n)
	}
}
