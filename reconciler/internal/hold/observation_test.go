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
	began := time.Unix(100, 0)
	s.Observed("a")
	if s.Predate("a", began) {
		t.Error("without a listing there is nothing that predates")
	}
	s.Ended(began)
	if s.Predate("a", began) || !s.Predate("a", began.Add(1)) {
		t.Error("the listing predates what was applied after it began, and nothing else")
	}
	s.Observed("a")
	if s.Predate("a", began.Add(1)) || !s.Predate("b", began.Add(1)) {
		t.Error("what was observed of a row since the listing does not predate it")
	}
	s.Ended(began.Add(2))
	if !s.Predate("a", began.Add(3)) {
		t.Error("news from before a listing are none after it")
	}
}
