package main

import (
	"strings"
	"testing"
	"time"
)

func TestEveryWorkIsDone(t *testing.T) {
	for _, w := range works() {
		once, units, err := w.open()
		if err != nil || units <= 0 {
			t.Fatalf("%s: %d units, %v", w.name, units, err)
		}
		for range 2 {
			if err := once(); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	}
}

func TestSampleIsThatOfOneRow(t *testing.T) {
	var b strings.Builder
	o := options{measure: "transaction of 10 hot rows", benchtime: 20 * time.Millisecond}
	if err := o.run(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	s, err := readSample(strings.TrimSpace(b.String()))
	if err != nil || s.clock < 10 || s.clock > 1e6 || s.cpu <= 0 || s.bytes != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = measureNamed("bytes per row, of 100,000", 0)
	if err != nil || s.bytes < 24 || s.bytes > 1_000 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := measureNamed("nothing", 0); err == nil {
		t.Error("no error about a name that is not known")
	}
}

func TestWrongFlagsAreErrors(t *testing.T) {
	for _, o := range []options{{runs: 0, benchtime: 1}, {runs: 1}, {runs: 1, benchtime: 1, only: "("}} {
		if err := o.run(t.Context(), new(strings.Builder)); err == nil {
			t.Errorf("no error: %+v", o)
		}
	}
}

func TestMedianIsInTheMiddleOfEachFigure(t *testing.T) {
	got := medians([]sample{{clock: 3, cpu: 1, bytes: 7}, {clock: 1, cpu: 2, bytes: 9}, {clock: 2, cpu: 3, bytes: 8}})
	if want := (sample{clock: 2, cpu: 2, bytes: 8}); got != want {
		t.Errorf("%+v instead of %+v", got, want)
	}
}

func TestLineIsBoldWhereItsGoalIsMissed(t *testing.T) {
	half, third := sample{clock: 500, cpu: 600, bytes: 90.6}, sample{clock: 250, cpu: 400, bytes: 91.4}
	for want, l := range map[string]line{
		"| a | 500 ns | 250 ns | 2.00 | 600 ns | 400 ns | 1.50 | ≥ 2 |\n":       {name: "a", goal: 2, by: clockTime, base: half, now: third},
		"| b | 500 ns | 250 ns | **2.00** | 600 ns | 400 ns | 1.50 | ≥ 3 |\n":   {name: "b", goal: 3, by: clockTime, base: half, now: third},
		"| c | 500 ns | 250 ns | 2.00 | 600 ns | 400 ns | 1.50 | CPU ≥ 1.5 |\n": {name: "c", goal: 1.5, by: cpuTime, base: half, now: third},
		"| d | 500 ns | 250 ns | 2.00 | 600 ns | 400 ns | **1.50** | CPU ≥ 2 |\n": {
			name: "d", goal: 2, by: cpuTime, base: half, now: third,
		},
		"| e | 91 B | 91 B | 1.00 | – | – | – | not more |\n":     {name: "e", goal: 1, by: heapBytes, base: half, now: third},
		"| f | 91 B | 95 B | **0.96** | – | – | – | not more |\n": {name: "f", goal: 1, by: heapBytes, base: half, now: sample{bytes: 95}},
		"| g | 12.3 ns | 6.1 ns | 2.00 | 0.0 ns | 0.0 ns | NaN | ≥ 2 |\n": {
			name: "g", goal: 2, base: sample{clock: 12.3}, now: sample{clock: 6.14},
		},
	} {
		var b strings.Builder
		if err := l.write(&b); err != nil || b.String() != want {
			t.Errorf("%q instead of %q, %v", b.String(), want, err)
		}
	}
}
