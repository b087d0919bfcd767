package main

import (
	"fmt"
	"io"
	"strings"
)

// form is how a figure is shown, and what it is compared with.
type form int

const (
	versus    form = iota // seconds as a multiple of the peer's
	seconds               // seconds without those of parsing
	latency               // seconds, shown as milliseconds
	count                 // a number
	percent               // of a core
	megabytes             //
)

// line is a row of the table.
type line struct {
	section rune
	what    string
	figure  string
	form    form
	limit   float64 // the most that reaches the goal
}

func writeTable(w io.Writer, o options, all figures, machine string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d runs in turn, by the clock; %s.\n", o.Runs, machine)
	b.WriteString("Parsing is what the source of documents alone takes for them; ratios and the start are without it. Bold: the goal is missed. The peer is `ip -batch`, unless something else is said.\n\n")
	b.WriteString("| what | Statehive | parsing | peer | result | goal |\n|---|---|---|---|---|---|\n")
	for _, l := range o.lines() {
		l.write(&b, all)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l line) write(b *strings.Builder, all figures) {
	goal := "≤ " + l.show(l.limit)
	if l.limit == 0 {
		goal = l.show(0)
	}
	result, text, measured := l.result(all)
	switch {
	case !measured: // text says why
	case result > l.limit:
		text = "**" + l.show(result) + "**"
	default:
		text = l.show(result)
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", l.what,
		l.cell(all, ours), l.cell(all, parsing), l.cell(all, theirs), text, goal)
}

// cell is the median of a contestant.
func (l line) cell(all figures, of string) string {
	values := all.values(l.figure, of)
	if len(values) == 0 {
		return "–"
	}
	text := l.show(median(values))
	if l.form == versus {
		text = showSeconds(median(values))
	}
	if p50 := all.values(l.figure, typical); len(p50) > 0 {
		text = "p50 " + l.show(median(p50)) + ", p99 " + text
	}
	return text
}

// result is what is compared with the goal, or the reason why there is none.
func (l line) result(all figures) (value float64, reason string, measured bool) {
	if failure := all.failure(l.figure); failure != "" {
		return 0, strings.ReplaceAll(failure, "\n", " "), false
	}
	own, peer := all.values(l.figure, ours), all.values(l.figure, theirs)
	if len(own) == 0 || l.form == versus && len(peer) == 0 {
		return 0, "not measured", false
	}
	value = median(own)
	if parse := all.values(l.figure, parsing); len(parse) > 0 {
		value -= median(parse)
	}
	if l.form == versus {
		value /= median(peer)
	}
	return value, "", true
}

func (l line) show(value float64) string {
	switch l.form {
	case versus:
		return fmt.Sprintf("%.2f×", value)
	case seconds:
		return showSeconds(value)
	case latency:
		return fmt.Sprintf("%.1f ms", value*1e3)
	case count:
		return fmt.Sprintf("%.0f", value)
	case percent:
		return fmt.Sprintf("%.2f %%", value)
	case megabytes:
		return fmt.Sprintf("%.0f MB", value)
	}
	return fmt.Sprint(value)
}

func showSeconds(value float64) string { return fmt.Sprintf("%.3f s", value) }
