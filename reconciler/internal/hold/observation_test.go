package hold

import (
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
