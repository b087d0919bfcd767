package index_test

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/statehive/statehive/statedb/index"
)

// FuzzCompositeOrder looks for pairs of keys whose stored form orders otherwise
// than (secondary, primary).
func FuzzCompositeOrder(f *testing.F) {
	for _, seed := range [][6]string{
		{"", "", "", "", "", ""},
		{"a", "aa", "x", "a", "a", "ax"},
		{"a\x00", "b", "p", "a", "\x00b", "p"},
		{"a\x00\xff", "", "p", "a\x00", "\xff", "p"},
		{"\x00\x00", "\x00", "", "\x00", "\x00\x00", ""},
		{"a\xff", "", "", "a", "", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2], int16(-1), seed[3], seed[4], seed[5], int16(1))
	}
	type key struct {
		First  string
		Number int16
		Second string
	}
	codec, err := index.For[key]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, firstA, secondA, primaryA string, numberA int16, firstB, secondB, primaryB string, numberB int16) {
		a, b := key{firstA, numberA, secondA}, key{firstB, numberB, secondB}
		want := cmp.Or(cmp.Compare(firstA, firstB), cmp.Compare(numberA, numberB), cmp.Compare(secondA, secondB), cmp.Compare(primaryA, primaryB))
		if got := bytes.Compare(composite(codec, a, primaryA), composite(codec, b, primaryB)); got != want {
			t.Errorf("%+v+%q and %+v+%q compare as %d, expected %d", a, primaryA, b, primaryB, got, want)
		}
	})
}

// FuzzStructText looks for struct keys whose text does not read back.
func FuzzStructText(f *testing.F) {
	f.Add("", "", int8(0))
	f.Add(",", `\`, int8(-1))
	f.Add(`a\`, `,\,`, int8(7))
	type inner struct {
		Text  string
		Level int8
	}
	type key struct {
		Inner inner
		Text  string
	}
	codec, err := index.For[key]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string, number int8) {
		want := key{inner{first, number}, second}
		if got, err := codec.Parse(codec.Format(want)); err != nil || got != want {
			t.Errorf("%+v has the text %q, which reads as %+v, %v", want, codec.Format(want), got, err)
		}
	})
}
