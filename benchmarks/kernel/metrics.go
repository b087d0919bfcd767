package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

const metricPrefix = "statehive_reconciler_"

// gauges are metrics of reconcilers, by their names without prefix, each by the
// name of the reconciler; further labels are added up.
type gauges map[string]map[string]float64

// parseMetrics reads the text format of Prometheus as far as reconcilers have it.
func parseMetrics(r io.Reader) (gauges, error) {
	all := gauges{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text, ours := strings.CutPrefix(lines.Text(), metricPrefix)
		name, rest, labeled := strings.Cut(text, "{")
		labels, number, ended := strings.Cut(rest, "} ")
		_, label, named := strings.Cut(labels, `reconciler="`)
		reconciler, _, closed := strings.Cut(label, `"`)
		value, err := strconv.ParseFloat(number, 64)
		if !ours || !labeled || !ended || !named || !closed || err != nil {
			continue
		}
		if all[name] == nil {
			all[name] = map[string]float64{}
		}
		all[name][reconciler] += value
	}
	return all, lines.Err()
}

// idle reports whether every reconciler has made its first full pass, and has
// nothing to do now. What is held for an approval does not count.
func (g gauges) idle() bool {
	for _, passes := range g["full_total"] {
		if passes == 0 {
			return false
		}
	}
	return len(g["full_total"]) > 0 && g.sum("queue_depth") == 0 && g.sum("active_workers") == 0
}

func (g gauges) sum(name string) (sum float64) {
	for _, value := range g[name] {
		sum += value
	}
	return sum
}
