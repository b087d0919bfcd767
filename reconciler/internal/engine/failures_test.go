package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/statehive/statehive/reconciler/internal/pool"
)

func TestReasonsDoNotNameTheRow(t *testing.T) {
	long := strings.Repeat("ä", maxReason)
	for _, tt := range []struct{ name, err, want string }{
		{"eth0", "no such device", "no such device"},
		{"eth0", "eth0: no such device: eth0\nand more", "<key>: no such device: <key>"},
		{"eth0", `set "eth0" up: eth0`, `set "<key>" up: <key>`},
		{"eth0", "eth01, xeth0, eth0_x, äeth0", "eth01, xeth0, eth0_x, äeth0"},
		{"eth0", "eth0eth0 eth0", "eth0eth0 <key>"},
		{"eth0", "eth0/64 on eth0.7", "<key>/64 on <key>.7"},
		{"a", "a: not a device", "<key>: not <key> device"},
		{"inet main 10.0.0.0/24 0", "add inet main 10.0.0.0/24 0: no route", "add <key>: no route"},
		{"inet main 10.0.0.0/24 0", "0 of 10.0.0.0/24: no route", "0 of <key>: no route"},
		{"inet main 10.0.0.1 0", "10.0.0.10 is there", "10.0.0.10 is there"},
		{"", "anything", "anything"},
		{"<", "<key> <", "<key>key> <key>"},
		{"x", "", ""},
		{"x", "\n", ""},
		{"x", "\xff x \xff", "\xff <key> \xff"},
		{"x", long, long[:maxReason-4] + "…"},
	} {
		got := reasonOf("update", tt.name, errors.New(tt.err))
		if want := (reason{"update", tt.want}); got != want {
			t.Errorf("row %q, error %q: got %q, want %q", tt.name, tt.err, got, want)
		}
		if len(got.text) > maxReason {
			t.Errorf("%d bytes", len(got.text))
		}
	}
	stuck := func(after time.Duration) reason {
		return reasonOf("update", "x", &TargetError{Operation: "update", Err: &pool.StuckError{After: after}})
	}
	if a, b := stuck(2*time.Second), stuck(2003*time.Millisecond); a != b {
		t.Errorf("%q is not %q", a, b)
	}
}

// wantSound checks what always holds of failures, and that the rows fail for these reasons.
func wantSound(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, s *failures, want map[string]reason, news map[string]bool,
) {
	t.Helper()
	groups := slices.Collect(maps.Values(s.groups))
	singles := 0
	for why, g := range s.groups {
		if g.why != why || (g.single != nil) != (len(g.rows.list) == 1) {
			t.Fatalf("group %q is %+v", why, g)
		}
		if g.single != nil {
			singles++
		}
	}
	if s.other != nil {
		groups = append(groups, s.other)
	}
	if len(groups) > maxGroups || s.singles.Len() != singles {
		t.Fatalf("%d groups, %d of one row, of which the list has %d", len(groups), singles, s.singles.Len())
	}
	got, gotNews := map[string]reason{}, map[string]bool{}
	for _, g := range groups {
		if len(g.rows.list) == 0 {
			t.Fatalf("group %q is empty", g.why)
		}
		for _, f := range g.rows.list {
			if got[f.key] = f.why; f.group != g || g != s.other && g.why != f.why || s.rows[f.key] != f {
				t.Fatalf("%+v is in group %q", f, g.why)
			}
		}
		for _, f := range g.news.list {
			gotNews[f.key] = true
		}
		if !ranked(g.rows) || !ranked(g.news) || g != s.other && (g.rank >= 0) != (len(g.news.list) > 0) {
			t.Fatalf("group %q has the first rows %q, of those that are news %q, and rank %d",
				g.why, namesOf(g.rows.first()), namesOf(g.news.first()), g.rank)
		}
	}
	if !ranked(s.largest) {
		t.Fatalf("the groups are not ranked: %+v", s.largest.list)
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(reason{})); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(news, gotNews); diff != "" || s.news != len(news) || len(s.rows) != len(want) {
		t.Fatalf("news, of which it counts %d (-want +got):\n%s", s.news, diff)
	}
}

// ranked reports whether the first items of a ranking are those that it says.
func ranked[T comparable](r ranking[T]) bool {
	sorted := slices.SortedFunc(slices.Values(r.list), r.before)
	return slices.Equal(r.first(), sorted[:min(len(sorted), shown)])
}

func TestFailuresAreInTheGroupsOfTheirReasons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newFailures()
		rows, news := map[string]reason{}, map[string]bool{}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "key"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				if s.fine(key) != news[key] {
					t.Fatal("fine is not right about what was news")
				}
				delete(rows, key)
				delete(news, key)
			case 1:
				if f := s.get(key); f != nil && s.becomesNews(f) == news[key] {
					t.Fatal("becomesNews is not right about what was news")
				} else if f != nil {
					news[key] = true
				}
			default:
				why := reason{"update", fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "reason"))}
				_, before := rows[key]
				if _, first := s.fails(key, key, why, errors.New(why.text), time.Now()); first == before {
					t.Fatal("fails is not right about what failed before")
				}
				rows[key] = why
			}
			wantSound(t, s, rows, news)
		}
		s.clear()
		wantSound(t, s, map[string]reason{}, map[string]bool{})
	})
}

// However many reasons there are, one that many rows fail for is told apart.
func TestAReasonOfManyRowsHasItsGroupAmongThousands(t *testing.T) {
	s := newFailures()
	rows, now := map[string]reason{}, time.Now()
	fail := func(key, text string) {
		rows[key] = reason{"update", text}
		s.fails(key, key, rows[key], errors.New(text), now)
	}
	for round := range 2 {
		for i := range 3 * maxGroups {
			fail(fmt.Sprintf("%d", i), fmt.Sprintf("reason %d", i))
			if i%10 == 0 && i >= maxGroups {
				fail(fmt.Sprintf("late %d", i), "no such device")
			}
		}
		wantSound(t, s, rows, map[string]bool{})
		all := s.list()
		if first := all[0]; first.Error != "no such device" || first.Count != 2*maxGroups/10 {
			t.Errorf("round %d: the largest group is %+v", round, first)
		}
		if last := all[len(all)-1]; len(all) != maxGroups || last.Error != otherErrors || last.Operation != "" || last.Count != 2*maxGroups+2 {
			t.Errorf("round %d: the last of %d groups is %+v", round, len(all), last)
		}
	}
	// One that was in no group of its own gets one when there is room.
	for i := range 3 * maxGroups {
		s.fine(fmt.Sprintf("%d", i))
	}
	if n, groups := s.count(); n != 2*maxGroups/10 || groups != 1 {
		t.Errorf("%d rows in %d groups are left", n, groups)
	}
}

// The cost of a failure must not grow with the number of rows that fail.
func BenchmarkFailures(b *testing.B) {
	for _, rows := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			s := newFailures()
			keys := make([]string, rows)
			for i := range keys {
				keys[i] = fmt.Sprintf("%08d", i)
			}
			err, now := errors.New("no such device"), time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[i%rows]
				f, _ := s.fails(key, key, reasonOf("update", key, err), err, now)
				s.becomesNews(f)
			}
		})
	}
}

func TestGroupErrorsTellHowManyRowsAndWhich(t *testing.T) {
	s := newFailures()
	for i, key := range []string{"d", "c", "b", "a", "x"} {
		text := fmt.Sprintf("%s is bad\nand more", key)
		if key == "x" {
			text = "x is gone"
		}
		f, _ := s.fails(key, key, reasonOf("update", key, errors.New(text)), errors.New(text), time.Now())
		if i > 0 {
			s.becomesNews(f)
		}
	}
	text := func() (texts []string) {
		groups, all, more := s.worst()
		for _, g := range groups {
			texts = append(texts, g.Error())
		}
		return append(texts, fmt.Sprintf("%d of %d more", more, all))
	}
	want := []string{"update of 3 rows: <key> is bad (c, b, a)", "update x: x is gone", "0 of 4 more"}
	if got := text(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.becomesNews(s.get("d"))
	for _, key := range []string{"y", "z"} {
		f, _ := s.fails(key, key, reason{"delete", key}, errors.New("bad"), time.Now())
		s.becomesNews(f)
	}
	want = []string{"update of 4 rows: <key> is bad (c, b, a, …)", "update x: x is gone", "delete y: bad", "1 of 7 more"}
	if got := text(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A failure log lets through what is new, and counts everything.
func TestFailureLogCountsWhatItDoesNotLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f failureLog
		now, logged, counted := time.Now(), 0, 0
		n := rapid.IntRange(0, 3*maxLogged).Draw(t, "failures")
		kinds := rapid.IntRange(1, 2*maxLogged).Draw(t, "reasons")
		for i := range n {
			if f.failed(reason{"update", fmt.Sprint(i % kinds)}, "x", errors.New("x"), false, now) {
				logged++
			}
		}
		for _, e := range f.reasons {
			counted += e.left
		}
		if logged != min(n, kinds, loggedReasons) || logged+counted != n || len(f.reasons) > maxLogged+1 {
			t.Fatalf("of %d failures for %d reasons %d were logged and %d counted, for %d reasons", n, kinds, logged, counted, len(f.reasons))
		}
		if want := logSoon; n > 0 && f.due.Sub(now) != want {
			t.Fatalf("the report is due after %v", f.due.Sub(now))
		}
	})
}
