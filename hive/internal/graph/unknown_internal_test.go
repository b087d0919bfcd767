package graph

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

// manySettings are a file with n unknown keys for a graph of many settings.
func manySettings(tb testing.TB, n, settings int) (*Graph, Sources) {
	tb.Helper()
	fields := []reflect.StructField{{Name: "File", Type: reflect.TypeFor[string](), Tag: `flag:"file"`}}
	for i := range settings {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: reflect.TypeFor[int](), Tag: reflect.StructTag(fmt.Sprintf(`flag:"some-setting-%d"`, i)),
		})
	}
	defaults := reflect.New(reflect.StructOf(fields)).Elem()
	defaults.Field(0).SetString("x.yaml")
	g, err := New(Options{Name: "test", Logger: slog.New(slog.DiscardHandler)}, &description.Config{Defaults: defaults})
	if err != nil {
		tb.Fatal(err)
	}
	entries := make([]FileEntry, n)
	for i := range entries {
		entries[i] = FileEntry{Key: fmt.Sprintf("%d-is-unknown", i), Position: fmt.Sprintf("x.yaml:%d", i), Value: ""}
	}
	return g, Sources{
		EnvPrefix: "TEST", LookupEnv: func(string) (string, bool) { return "", false },
		FileFlag: "file", ReadFile: func(string) ([]FileEntry, error) { return entries, nil },
	}
}

func TestErrorOfManyUnknownKeysIsBounded(t *testing.T) {
	for _, keys := range []int{500, 20_000} {
		g, from := manySettings(t, keys, 2_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := g.Configure(from)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Fatal("no error")
		}
		if size := len(err.Error()); size > 100_000 {
			t.Errorf("%d keys: %d bytes", keys, size)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 10_000_000 {
			t.Errorf("%d keys: %d bytes were allocated", keys, used)
		}
		if n := strings.Count(err.Error(), "unknown key \""); n != 500 {
			t.Errorf("%d keys are named", n)
		}
	}
}

func TestLongKeyIsShortened(t *testing.T) {
	g, from := manySettings(t, 0, 20)
	long := strings.Repeat("k", 1<<20)
	from.ReadFile = func(string) ([]FileEntry, error) {
		return []FileEntry{{Key: long, Position: "x.yaml:1"}, {Key: long, Position: "x.yaml:2"}}, nil
	}
	err := g.Configure(from)
	var unknown *cell.UnknownKeyError
	if !errors.As(err, &unknown) || unknown.Key != long || len(err.Error()) > 1000 {
		t.Errorf("got %d bytes: %.200s", len(err.Error()), err)
	}
}

func BenchmarkUnknownKeys(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		g, from := manySettings(b, 500, 2_000)
		b.StartTimer()
		b.ReportMetric(float64(len(g.Configure(from).Error())), "bytes")
	}
}

// plainDistance is the distance without a limit.
func plainDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	cost := 1
	if a[0] == b[0] {
		cost = 0
	}
	return min(plainDistance(a[1:], b[1:])+cost, plainDistance(a[1:], b)+1, plainDistance(a, b[1:])+1)
}

func TestNearestIsThatOfTheWholeDistance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		w := make([]byte, random.IntN(7))
		for i := range w {
			w[i] = "abc"[random.IntN(3)]
		}
		return string(w)
	}
	for range 3000 {
		a, b, limit := word(), word(), random.IntN(4)
		_, ok := nearest(a, []string{b}, limit)
		if want := plainDistance(a, b) <= limit; ok != want {
			t.Fatalf("%q, %q, limit %d: got %v, want %v", a, b, limit, ok, want)
		}
	}
}
