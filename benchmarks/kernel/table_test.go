package main

import (
	"strings"
	"testing"
	"time"
)

func TestMedianIsInTheMiddle(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{5}, 5}, {[]float64{4, 1, 3, 2}, 3}} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v: %v", test.values, got)
		}
	}
}

func TestPercentileIsOneOfTheValues(t *testing.T) {
	values := make([]int, 200)
	for i := range values {
		values[i] = 200 - i
	}
	for p, want := range map[float64]int{0: 1, 50: 100, 99: 198, 100: 200} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%v: %d, expected %d", p, got, want)
		}
	}
	if got := percentile([]int{7}, 99); got != 7 {
		t.Errorf("of one: %d", got)
	}
}

func testOptions() options {
	return options{
		Routes: 100, Addresses: 100, Devices: 4, Links: 100, Objects: 2000, Changes: 5, Drifts: 5, Runs: 2, Idle: time.Second, Deadline: time.Minute,
	}
}

func TestTableHasMediansRatiosAndWhatIsMissing(t *testing.T) {
	all, err := readFigures(strings.NewReader(`
		{"Name":"routes added","Of":"parsing","Value":1}
		{"Name":"routes added","Of":"statehive","Value":3.5}
		{"Name":"routes added","Of":"statehive","Value":3}
		{"Name":"routes added","Of":"statehive","Value":2.5}
		{"Name":"routes added","Of":"peer","Value":4}
		{"Name":"routes removed","Of":"statehive","Value":3}
		{"Name":"routes removed","Of":"peer","Value":2}
		{"Name":"links added","Of":"statehive","Error":"did not finish within 1m0s"}
		{"Name":"addresses added","Of":"statehive","Value":1}
		{"Name":"started","Of":"statehive","Value":1.5}
		{"Name":"started","Of":"parsing","Value":1}
		{"Name":"notifications at start","Of":"statehive","Value":2}
		{"Name":"idle CPU","Of":"statehive","Value":0.25}
		{"Name":"drift latency","Of":"statehive, median","Value":0.001}
		{"Name":"drift latency","Of":"statehive","Value":0.0213}
	`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := writeTable(&b, testOptions(), all, "a machine"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Medians of 2 runs in turn, by the clock; a machine.\n",
		"| add 100 routes | 3.000 s | 1.000 s | 4.000 s | 0.50× | ≤ 1.00× |\n",
		"| remove 100 routes | 3.000 s | – | 2.000 s | **1.50×** | ≤ 1.00× |\n",
		"| add 100 links | – | – | – | did not finish within 1m0s | ≤ 1.50× |\n",
		"| add 100 addresses | 1.000 s | – | – | not measured | ≤ 1.50× |\n",
		"| start over 100 right routes | 1.500 s | 1.000 s | – | 0.500 s | ≤ 1.000 s |\n",
		"| changes of routes meanwhile | 2 | – | – | **2** | 0 |\n",
		"| CPU while idle for 1s | 0.25 % | – | – | 0.25 % | ≤ 1.00 % |\n",
		"| memory (RSS) then | – | – | – | not measured | ≤ 250 MB |\n",
		"| one drifted row of 100, p99 of 5 | p50 1.0 ms, p99 21.3 ms | – | – | **21.3 ms** | ≤ 20.0 ms |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestOnlySomeSectionsAreMeasuredAndShown(t *testing.T) {
	o := testOptions()
	const newKinds = "rules, rules by ip, neighbors, neighbors by ip, nft tables, nft tables by nft, nft set, nft set by nft, files, files by copying"
	for only, want := range map[string]string{
		"":  "routes, routes by ip, addresses, addresses by ip, links, links by ip, " + newKinds + ", validate, one row",
		"h": "rules, rules by ip", "kl": "nft set, nft set by nft, files, files by copying",
		"a": "routes, routes by ip", "d": "routes", "e": "routes", "n": "routes", "m": "validate", "g": "one row", "cf": "addresses, addresses by ip, links, links by ip, one row",
	} {
		o.Only = only
		if got := strings.Join(schedule(o, 0), ", "); got != want {
			t.Errorf("-only %q: %s, expected %s", only, got, want)
		}
	}
	o.Only = "df"
	if lines := o.lines(); len(lines) != 3 || lines[2].figure != changeLatency {
		t.Errorf("-only df: %+v", lines)
	}
}

func TestTrialsAlternateAndSingleRowsAreMeasuredOnce(t *testing.T) {
	want := "routes by ip, routes, addresses by ip, addresses, links by ip, links, " +
		"rules by ip, rules, neighbors by ip, neighbors, nft tables by nft, nft tables, nft set by nft, nft set, files by copying, files, validate"
	if got := strings.Join(schedule(testOptions(), 1), ", "); got != want {
		t.Errorf("second run: %s, expected %s", got, want)
	}
	for _, run := range []int{0, 1} {
		for _, name := range schedule(testOptions(), run) {
			if trials[name] == nil {
				t.Errorf("there is no trial %q", name)
			}
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-routes 10":             "expected at least 20",
		"-addresses 1000000":     "expected at most",
		"-objects 1999":          "-objects is 1999: expected 2000 to 60000",
		"-devices 0":             "-devices is 0",
		"-runs 0":                "-runs",
		"-only ax":               `no 'x'; there are: a add routes`,
		"-routes 100 -drifts 51": "at most half of the 100 routes",
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %q", args, err, want)
		}
	}
	if o, err := parseOptions(nil); err != nil || o.Routes != 100_000 || !strings.HasSuffix(o.Agent, "/bin/statehive") {
		t.Errorf("defaults: %+v, %v", o, err)
	}
}
