package hold

import (
	"slices"
	"testing"
	"time"
)

func TestDifferencesNamesTheFirst(t *testing.T) {
	changes := []Change{{"mtu", "1", "2"}, {"up", "", "true"}, {"a", "b", ""}, {"x", "y", "z"}, {"v", "w", "u"}}
	const want = `mtu is "1", not "2", up is "", not "true", a is "b", not "", 2 more`
	if got := Differences(changes); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestListingSaysNothingOfRowsThatWereAppliedSinceItBegan(t *testing.T) {
	var s Listings
	began, ended := time.Unix(100, 0), time.Unix(110, 0)
	want := func(when, key string, applied time.Time, want Certainty) {
		t.Helper()
		if got := s.About(key, applied, time.Unix(200, 0)); got != want {
			t.Errorf("%s: certainty %d of %s applied at %v, want %d", when, got, key, applied, want)
		}
	}
	s.Observed("a")
	want("without a listing", "a", began, Certain)
	s.Ended(began, ended)
	want("applied before the listing", "a", began, Certain)
	want("applied while it lasted", "a", began.Add(1), Uncertain)
	want("applied at its end", "a", ended, Unknown)
	want("applied after it", "a", ended.Add(1), Unknown)
	want("applied before the clock was set back", "a", time.Unix(201, 0), Certain)
	s.Observed("a")
	want("observed since", "a", ended.Add(1), Certain)
	want("not observed since", "b", ended.Add(1), Unknown)
	s.Ended(ended.Add(2), ended.Add(4))
	want("observed before the listing", "a", ended.Add(5), Unknown)
}

func TestRowsThatAreUpdatedDuringAListingAreUpdatedOnceMore(t *testing.T) {
	var s Listings
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	want := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	s.Begun()
	s.Updated("first", at(90), at(91))
	want("after the first listing, before which nothing was compared", s.Repeat(), nil)
	s.Updated("before", at(92), at(93))
	s.Begun()
	s.Updated("b", at(94), at(102))
	s.Updated("a", at(103), at(104))
	s.Updated("a", at(105), at(106))
	s.Ended(at(100), at(110))
	want("after a listing", s.Repeat(), []string{"a", "b"})
	want("once more", s.Repeat(), nil)
	for what, c := range map[string]struct {
		began, ended int64
		again        bool
	}{
		"one that outlasts the listing": {105, 111, true},
		"one that began at its end":     {110, 112, false},
		"one that is told of late":      {98, 99, false},
	} {
		if got := s.Updated("c", at(c.began), at(c.ended)); got != c.again {
			t.Errorf("%s: %v, want %v", what, got, c.again)
		}
	}
	want("without another listing", s.Repeat(), nil)
}
