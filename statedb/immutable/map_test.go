package immutable_test

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/immutable"
)

// kept is a version of a map and what it must be for ever.
type kept struct {
	m     immutable.Map[string, int]
	model map[string]int
}

// Any version may be the base of the next one, changed one by one or by a
// builder that goes on after it has given a map away.
func TestOldVersionsNeverChange(t *testing.T) {
	keys := rapid.StringMatching(`[ab\x00]{0,4}`) // which nest, and may be empty
	rapid.Check(t, func(t *rapid.T) {
		versions := []kept{{model: map[string]int{}}}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				v := rapid.SampledFrom(versions).Draw(t, "base")
				key, value := keys.Draw(t, "key"), rapid.Int().Draw(t, "value")
				next := kept{v.m.Set(key, value), maps.Clone(v.model)}
				next.model[key] = value
				versions = append(versions, next)
			},
			"delete": func(t *rapid.T) {
				v := rapid.SampledFrom(versions).Draw(t, "base")
				key := keys.Draw(t, "key")
				next := kept{v.m.Delete(key), maps.Clone(v.model)}
				delete(next.model, key)
				versions = append(versions, next)
			},
			"build": func(t *rapid.T) {
				v := rapid.SampledFrom(versions).Draw(t, "base")
				versions = append(versions, build(t, v, keys)...)
			},
			"": func(t *rapid.T) {
				checkMap(t, rapid.SampledFrom(versions).Draw(t, "version"), keys.Draw(t, "probe"))
			},
		})
		for _, v := range versions {
			checkMap(t, v, keys.Draw(t, "probe"))
		}
	})
}

func build(t *rapid.T, v kept, keys *rapid.Generator[string]) (made []kept) {
	b, model := v.m.Builder(), maps.Clone(v.model)
	for range rapid.IntRange(0, 8).Draw(t, "changes") {
		key := keys.Draw(t, "key")
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			_, there := model[key]
			if b.Delete(key) != there {
				t.Fatalf("deleting %q says %t", key, !there)
			}
			delete(model, key)
		case 1:
			made = append(made, kept{b.Map(), maps.Clone(model)})
		default:
			model[key] = len(model) + 1
			b.Set(key, model[key])
		}
		value, ok := b.Get(key)
		if want, there := model[key]; value != want || ok != there || b.Len() != len(model) {
			t.Fatalf("builder has %d, %t for %q and %d keys, expected %d, %t and %d", value, ok, key, b.Len(), want, there, len(model))
		}
	}
	return append(made, kept{b.Map(), model})
}

func checkMap(t *rapid.T, v kept, probe string) {
	sorted := slices.Sorted(maps.Keys(v.model))
	if got := slices.Collect(v.m.Keys()); !slices.Equal(got, sorted) {
		t.Fatalf("keys %q, expected %q", got, sorted)
	}
	for key, value := range v.m.All() {
		if v.model[key] != value {
			t.Fatalf("%q has %d, expected %d", key, value, v.model[key])
		}
	}
	value, ok := v.m.Get(probe)
	if want, there := v.model[probe]; value != want || ok != there || v.m.Has(probe) != there || v.m.Len() != len(v.model) {
		t.Fatalf("%q has %d, %t; expected %d, %t", probe, value, ok, want, there)
	}
	i, _ := slices.BinarySearch(sorted, probe)
	if got := keysOf(v.m.From(probe)); !slices.Equal(got, sorted[i:]) {
		t.Fatalf("from %q: %q, expected %q", probe, got, sorted[i:])
	}
	slices.Reverse(sorted)
	if got := keysOf(v.m.Backward()); !slices.Equal(got, sorted) {
		t.Fatalf("backward %q, expected %q", got, sorted)
	}
	if same := immutable.CollectMap(maps.All(v.model)); !v.m.Equal(same) || v.m.Equal(same.Set("other", 1)) {
		t.Fatalf("%v does not equal %v alone", v.m, same)
	}
}

func keysOf[K, V any](seq func(func(K, V) bool)) (keys []K) {
	for key := range seq {
		keys = append(keys, key)
	}
	return keys
}

func TestZeroMapIsEmpty(t *testing.T) {
	var m immutable.Map[string, int]
	if _, ok := m.Get("a"); ok || m.Has("") || m.Len() != 0 || !m.IsZero() || m.String() != "" {
		t.Errorf("the zero map holds something: %v", m)
	}
	for range m.All() {
		t.Error("All yields")
	}
	for range m.From("") {
		t.Error("From yields")
	}
	for range m.Backward() {
		t.Error("Backward yields")
	}
	if gone := m.Set("a", 1).Delete("a"); !m.Equal(m.Delete("a")) || !m.Equal(gone) || !gone.Equal(m) {
		t.Error("empty maps differ")
	}
}

func TestSequencesCanBeLeftEarly(t *testing.T) {
	m := immutable.CollectMap(maps.All(map[int]string{1: "a", 2: "b", 3: "c"}))
	for range m.Keys() {
		break
	}
	for range m.Values() {
		break
	}
	for key := range m.From(2) {
		if key != 2 {
			t.Errorf("From(2) begins with %d", key)
		}
		break
	}
	for key := range immutable.SetOf(1, 2).Backward() {
		if key != 2 {
			t.Errorf("Backward begins with %d", key)
		}
		break
	}
	if got := slices.Collect(m.Values()); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("values %v", got)
	}
}

func TestKeysAreInTheOrderOfTheirType(t *testing.T) {
	type port uint16
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	inOrder(t, false, true)
	inOrder(t, math.MinInt, -1, 0, 1, math.MaxInt)
	inOrder[int8](t, -128, -1, 0, 127)
	inOrder[int16](t, -300, 0, 300)
	inOrder[int32](t, -70000, 0, 70000)
	inOrder[int64](t, math.MinInt64, 0, math.MaxInt64)
	inOrder[uint](t, 0, 255, 256)
	inOrder[uint8](t, 0, 255)
	inOrder[uint16](t, 255, 256)
	inOrder[uint32](t, 255, 256, 65536)
	inOrder[uint64](t, 0, math.MaxUint64)
	inOrder[port](t, 80, 443, 8080)
	inOrder(t, "", "\x00", "a", "a\x00", "ab")
	inOrder(t, [4]byte{0, 1}, [4]byte{1})
	inOrder(t, [6]byte{0, 1}, [6]byte{1})
	inOrder(t, [8]byte{0, 1}, [8]byte{1})
	inOrder(t, [16]byte{0, 1}, [16]byte{1})
	inOrder(t, [20]byte{0, 1}, [20]byte{1})
	inOrder(t, [32]byte{0, 1}, [32]byte{1})
	inOrder(t, netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("::1"))
	inOrder(t, netip.MustParsePrefix("9.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"))
	inOrder(t, at.Add(-time.Nanosecond), at, at.Add(time.Hour))
}

// inOrder adds keys last to first and expects them first to last, in JSON too.
func inOrder[K immutable.Key](t *testing.T, keys ...K) {
	t.Helper()
	s := immutable.Set[K]{}
	for _, key := range slices.Backward(keys) {
		s = s.Add(key)
	}
	if diff := gocmp.Diff(keys, slices.Collect(s.All()), gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		gocmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("%T: wrong order:\n%s", keys, diff)
	}
	var back immutable.Set[K]
	roundTrip(t, s, &back)
	if !s.Equal(back) {
		t.Errorf("%T: %v comes back as %v", keys, s, back)
	}
	m := immutable.Map[K, string]{}
	for key := range s.All() {
		m = m.Set(key, "value")
	}
	var backMap immutable.Map[K, string]
	roundTrip(t, m, &backMap)
	if !m.Equal(backMap) {
		t.Errorf("%T: %v comes back as %v", keys, m, backMap)
	}
}

func TestEqualComparesValuesByWhatTheyAre(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	one := immutable.Map[string, time.Time]{}.Set("a", at)
	if other := one.Set("a", at.In(time.FixedZone("east", 3600))); !one.Equal(other) {
		t.Error("times are not compared by their Equal")
	}
	lists := immutable.Map[string, []int]{}.Set("a", []int{1, 2})
	if !lists.Equal(lists.Set("a", []int{1, 2})) || lists.Equal(lists.Set("a", []int{1})) {
		t.Error("lists are not compared deeply")
	}
	nested := immutable.Map[string, immutable.Map[int, bool]]{}.Set("a", immutable.Map[int, bool]{}.Set(1, true))
	if !nested.Equal(nested.Set("a", immutable.Map[int, bool]{}.Set(1, true))) {
		t.Error("maps in maps are not compared by their Equal")
	}
	if numbers := (immutable.Map[string, int]{}).Set("a", 1); numbers.Equal(numbers.Set("a", 2)) ||
		numbers.Equal(immutable.Map[string, int]{}.Set("b", 1)) || numbers.Equal(numbers.Set("b", 1)) {
		t.Error("maps that differ are equal")
	}
	texts := immutable.Map[string, string]{}.Set("a", "X")
	if !texts.EqualFunc(texts.Set("a", "x"), strings.EqualFold) {
		t.Error("EqualFunc does not use its function")
	}
}

func TestSetsActAsSets(t *testing.T) {
	ints := rapid.Custom(func(t *rapid.T) immutable.Set[int] {
		return immutable.SetOf(rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "elements")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ints.Draw(t, "a"), ints.Draw(t, "b")
		union, minus := a.Union(b), a.Minus(b)
		for i := range 21 {
			if union.Has(i) != (a.Has(i) || b.Has(i)) || minus.Has(i) != (a.Has(i) && !b.Has(i)) {
				t.Fatalf("%d: %v and %v have the union %v and the difference %v", i, a, b, union, minus)
			}
		}
		if !union.Equal(b.Union(a)) || !minus.Union(b).Equal(union) || union.Len() != minus.Len()+b.Len() {
			t.Fatalf("%v and %v: union %v, difference %v", a, b, union, minus)
		}
		if got := slices.Collect(a.From(10)); !slices.IsSortedFunc(got, cmp.Compare) || len(got) > 0 && got[0] < 10 {
			t.Fatalf("from 10: %v", got)
		}
	})
	s := immutable.SetOf("a")
	if !s.Add("a").Equal(s) || !s.Delete("a").IsZero() || s.Delete("b").Len() != 1 || s.String() != "a" {
		t.Errorf("adding and deleting went wrong with %v", s)
	}
	b := s.Builder()
	b.Add("b")
	if !b.Has("b") || b.Delete("c") || b.Len() != 2 || !b.Set().Equal(immutable.CollectSet(slices.Values([]string{"b", "a", "b"}))) {
		t.Errorf("the builder made %v", b.Set())
	}
}
