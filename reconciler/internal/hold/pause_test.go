package hold

import (
	"testing"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

var paused = Reason{Stage: workqueue.Paused, Text: "until it is resumed"}

func matching(of string) func(*store.Entry) bool {
	return func(e *store.Entry) bool { return rowOf(e).Of == of }
}

func TestPausesHoldTheRowsThatAreSelected(t *testing.T) {
	b := newBed(t, "rows")
	b.put("rows", row{ID: "a", Of: "x"}, row{ID: "b", Of: "x"}, row{ID: "c", Of: "y"})
	for name, c := range map[string]struct {
		begin []Selector
		end   []Selector
		want  string
	}{
		"none":                            {},
		"all":                             {begin: []Selector{{}}, want: "abc"},
		"keys":                            {begin: []Selector{{Keys: []string{"a", "c"}}}, want: "ac"},
		"match":                           {begin: []Selector{{Match: matching("x")}}, want: "ab"},
		"keys and match":                  {begin: []Selector{{Keys: []string{"c"}, Match: matching("x")}}, want: "abc"},
		"a match that panics":             {begin: []Selector{{Match: func(*store.Entry) bool { panic("no") }}}, want: "abc"},
		"all ended":                       {begin: []Selector{{}, {Keys: []string{"a"}}}, end: []Selector{{}}},
		"a key ended":                     {begin: []Selector{{Keys: []string{"a", "b"}}}, end: []Selector{{Keys: []string{"a"}}}, want: "b"},
		"a key ended that all have":       {begin: []Selector{{}}, end: []Selector{{Keys: []string{"a"}}}, want: "abc"},
		"a match ended":                   {begin: []Selector{{Match: matching("x")}, {Keys: []string{"b"}}}, end: []Selector{{Match: matching("x")}}, want: "b"},
		"the last key ended, not a match": {begin: []Selector{{Keys: []string{"c"}, Match: matching("x")}}, end: []Selector{{Keys: []string{"c"}}}, want: "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			p := NewPauses(b.tables["rows"].Untyped())
			for _, s := range c.begin {
				p.Begin(s, time.Time{})
			}
			for _, s := range c.end {
				p.End(s)
			}
			got := ""
			for _, id := range []string{"a", "b", "c"} {
				if why, held := b.holds(p, b.task(pool.Update, "rows", id)); held {
					got += id
					if why != paused {
						t.Errorf("%s: %+v", id, why)
					}
				}
			}
			if got != c.want || p.Any() != (c.want != "") {
				t.Errorf("paused: %q, want %q; any: %t", got, c.want, p.Any())
			}
		})
	}
}

func TestPausesEndWhenTheirTimeComes(t *testing.T) {
	b := newBed(t, "rows")
	b.put("rows", row{ID: "a"})
	p := NewPauses(b.tables["rows"].Untyped())
	until := b.now.Add(time.Minute)
	p.Begin(Selector{}, until.Add(time.Minute))
	p.Begin(Selector{Keys: []string{"a"}}, until)
	if got := p.NextEnd(); !got.Equal(until) {
		t.Errorf("the next ends at %v, want %v", got, until)
	}
	if p.Expire(until.Add(-1)) || !p.Expire(until) || p.Expire(until) {
		t.Error("a pause must end when its time has come, and once")
	}
	b.want(p, b.task(pool.Delete, "rows", "a"), Reason{
		Stage: workqueue.Paused, Text: "until " + until.Add(time.Minute).Format(time.RFC3339),
	})
	if !p.Expire(until.Add(time.Minute)) || p.Any() || !p.NextEnd().IsZero() {
		t.Error("no pause must be left")
	}
}
