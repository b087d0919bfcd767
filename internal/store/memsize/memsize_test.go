package memsize_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/statehive/statehive/internal/store/memsize"
)

type cycle struct{ next *cycle }

type locked struct {
	_    sync.Mutex
	rows map[string]string
}

func TestBehindCountsWhatAValueLeadsTo(t *testing.T) {
	text := strings.Repeat("x", 100)
	loop := &cycle{}
	loop.next = loop
	for name, c := range map[string]struct {
		value any
		want  int
	}{
		"number":                  {7, 0},
		"string":                  {text, 112},
		"a string twice":          {[2]string{text, text}, 112},
		"slice":                   {make([]int, 2, 4), 32},
		"nil pointer":             {(*cycle)(nil), 0},
		"cycle":                   {loop, 8},
		"interfaces":              {[]any{1, text}, 32 + 8 + 16 + 112},
		"what a lock may guard":   {&locked{rows: map[string]string{text: text}}, 0},
		"the program's time zone": {time.Now(), 0},
	} {
		if got := memsize.New().Behind(reflect.ValueOf(c.value)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAllocNeverShrinks(t *testing.T) {
	for n := range 100_000 {
		if size := memsize.Alloc(n); size < n || size < memsize.Alloc(n-1) || size > n+n/4+8 {
			t.Fatalf("an object of %d bytes takes %d", n, size)
		}
	}
}
