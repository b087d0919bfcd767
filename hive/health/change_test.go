package health_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/health"
)

func TestChangeIsALineForPeople(t *testing.T) {
	since := time.Date(2020, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	for want, c := range map[string]health.Change{
		"OK since 2020-01-02T02:04:05Z: fine":            {Level: health.OK, Since: since, Message: "fine"},
		"Degraded since 2020-01-02T02:04:05Z: bad: worn": {Level: health.Degraded, Since: since, Message: "bad", Error: "worn"},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLastChangesOfLevelAreKept(t *testing.T) {
	f := newFixture(t)
	h := f.scope("m")
	for i := range 12 {
		h.OK(fmt.Sprint("fine ", i))
		h.OK("still fine")
		h.Degraded(fmt.Sprint("bad ", i), errors.New("why"))
	}
	s, _, _ := f.get("m")
	if s.Recent == nil || len(*s.Recent) != 8 {
		t.Fatalf("got %+v", s.Recent)
	}
	if got := (*s.Recent)[:2]; got[0].Message != "still fine" || got[0].Level != health.OK || got[1].Message != "bad 10" || got[1].Error != "why" {
		t.Errorf("got %+v", got)
	}
}
