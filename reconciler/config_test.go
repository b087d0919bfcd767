package reconciler_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
)

// senseless are limits with which a reconciler would do nothing, or not what was
// meant, and the parts of the error: the field, its value and what is expected.
func senseless() map[string]struct {
	limits reconciler.Limits
	want   []string
} {
	type bad = struct {
		limits reconciler.Limits
		want   []string
	}
	rated := func(r rate.Limit, burst int) reconciler.Limits {
		return reconciler.Limits{Limiter: rate.NewLimiter(r, burst)}
	}
	return map[string]bad{
		"a rate that is no number":         {rated(rate.Limit(math.NaN()), 1), []string{"Limits.Limiter", "NaN", "positive"}},
		"a rate below zero":                {rated(-5, 1), []string{"Limits.Limiter", "-5", "positive"}},
		"an infinite rate that is not Inf": {rated(rate.Limit(math.Inf(1)), 1), []string{"Limits.Limiter", "+Inf", "rate.Inf"}},
		"a rate of minus infinity":         {rated(rate.Limit(math.Inf(-1)), 1), []string{"Limits.Limiter", "-Inf", "positive"}},
		"a rate without a burst":           {rated(5, 0), []string{"Limits.Limiter", "burst", "0", "at least 1"}},
		"a burst below zero":               {rated(5, -3), []string{"Limits.Limiter", "burst", "-3", "at least 1"}},
	}
}

func TestInvalidLimitsAreRefused(t *testing.T) {
	for name, test := range senseless() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			check := func(what string, err error) {
				t.Helper()
				for _, part := range test.want {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%s: the error is %v, expected it to say %q", what, err, part)
						return
					}
				}
			}
			p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}
			r := must(reconciler.New(p))
			before := r.Limits()
			check("SetLimits", r.SetLimits(test.limits))
			w.equal("limits in force", true, r.Limits() == before)
			p.Config.Limits = test.limits
			_, err := reconciler.New(p)
			check("New", err)
		})
	}
}

// A limiter without a bound, and one by which nothing runs until it is changed, are
// what somebody may mean.
func TestValidLimitsAreAccepted(t *testing.T) {
	w := newWorld(t)
	for _, limits := range []reconciler.Limits{
		{},
		{RoundSize: 1},
		{Limiter: rate.NewLimiter(rate.Inf, 0)},
		{Limiter: rate.NewLimiter(0, 0)},
		{Limiter: rate.NewLimiter(0.001, 1)},
	} {
		p := reconciler.Params[row]{DB: w.db, Table: w.rows(), Target: observing{w.target}}
		p.Config.Limits = limits
		r, err := reconciler.New(p)
		if err != nil {
			t.Errorf("%+v: %v", limits, err)
			continue
		}
		if err := r.SetLimits(limits); err != nil {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}

// Full passes one after the other leave the target no rest: a time below a second
// is a mistake, such as a number without its unit.
func TestInvalidFullIntervalsAreRefused(t *testing.T) {
	w := newWorld(t)
	for interval, refused := range map[time.Duration]bool{
		1:                             true,
		time.Millisecond:              true,
		time.Second - time.Nanosecond: true,
		time.Second:                   false,
		-1:                            false,
		0:                             false,
	} {
		p := reconciler.Params[row]{Name: "mine", DB: w.db, Table: w.rows(), Target: observing{w.target}}
		p.Config.FullInterval = interval
		_, err := reconciler.New(p)
		switch {
		case !refused && err != nil:
			t.Errorf("%v: %v", interval, err)
		case !refused:
		case err == nil:
			t.Errorf("%v is not refused", interval)
		default:
			for _, part := range []string{"Config.FullInterval is " + interval.String(), "at least 1s", "negative"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v: the error is %v, expected it to say %q", interval, err, part)
				}
			}
		}
	}
}
