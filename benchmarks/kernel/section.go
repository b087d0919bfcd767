package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sections are what can be measured alone.
var sections = map[rune]string{
	'a': "add routes",
	'b': "remove routes",
	'c': "addresses and links",
	'd': "start over routes that are right",
	'e': "idle",
	'f': "change of one row",
	'g': "drift of one row",
	'h': "rules",
	'i': "neighbors",
	'j': "tables of nftables",
	'k': "a set of nftables",
	'l': "files",
	'm': "validate documents",
	'n': "plan of documents that are in force",
}

func sectionsHelp() string {
	var parts []string
	for _, letter := range slices.Sorted(maps.Keys(sections)) {
		parts = append(parts, fmt.Sprintf("%c %s", letter, sections[letter]))
	}
	return strings.Join(parts, ", ")
}

// wants reports whether one of the sections is to be measured.
func (o options) wants(letters string) bool {
	return o.Only == "" || strings.ContainsAny(o.Only, letters)
}

// lines are the rows of the table that are wanted, in order.
func (o options) lines() []line {
	all := []line{
		{section: 'a', what: fmt.Sprintf("add %d routes", o.Routes), figure: routesAdded, form: versus, limit: 1},
		{section: 'b', what: fmt.Sprintf("remove %d routes", o.Routes), figure: routesRemoved, form: versus, limit: 1},
		{section: 'c', what: fmt.Sprintf("add %d addresses", o.Addresses), figure: addressesAdded, form: versus, limit: 1.5},
		{section: 'c', what: fmt.Sprintf("remove %d addresses", o.Addresses), figure: addressesRemoved, form: versus, limit: 1.5},
		{section: 'c', what: fmt.Sprintf("add %d links", o.Links), figure: linksAdded, form: versus, limit: 1.5},
		{section: 'c', what: fmt.Sprintf("remove %d links", o.Links), figure: linksRemoved, form: versus, limit: 1.5},
		{section: 'd', what: fmt.Sprintf("start over %d right routes", o.Routes), figure: started, form: seconds, limit: 1},
		{section: 'd', what: "changes of routes meanwhile", figure: startNotes, form: count, limit: 0},
		{section: 'e', what: fmt.Sprintf("CPU while idle for %v", o.Idle), figure: idleCPU, form: percent, limit: 1},
		{section: 'e', what: "memory (RSS) then", figure: idleMemory, form: megabytes, limit: 250},
		{section: 'f', what: fmt.Sprintf("one changed row of %d, p99 of %d", o.Routes, o.Changes), figure: changeLatency, form: latency, limit: 0.02},
		{section: 'g', what: fmt.Sprintf("one drifted row of %d, p99 of %d", o.Routes, o.Drifts), figure: driftLatency, form: latency, limit: 0.02},
		{section: 'h', what: fmt.Sprintf("add %d rules", o.Objects), figure: rulesAdded, form: versus, limit: 1.5},
		{section: 'h', what: fmt.Sprintf("remove %d rules", o.Objects), figure: rulesRemoved, form: versus, limit: 1.5},
		{section: 'i', what: fmt.Sprintf("add %d neighbors", o.Objects), figure: neighborsAdded, form: versus, limit: 1.5},
		{section: 'i', what: fmt.Sprintf("remove %d neighbors", o.Objects), figure: neighborsRemoved, form: versus, limit: 1.5},
		{section: 'j', what: fmt.Sprintf("add %d tables of %d nft rules, beside `nft -f`", tablesOf(o.Objects), rulesOfTable), figure: tablesAdded, form: versus, limit: 1.5},
		{section: 'j', what: fmt.Sprintf("remove %d tables of %d nft rules, beside `nft -f`", tablesOf(o.Objects), rulesOfTable), figure: tablesRemoved, form: versus, limit: 1.5},
		{section: 'k', what: fmt.Sprintf("add an nft table with a set of %d elements, beside `nft -f`", o.Objects), figure: setAdded, form: versus, limit: 1.5},
		{section: 'l', what: fmt.Sprintf("add %d files of 1 kB, beside copying and syncing each", o.Objects), figure: filesAdded, form: versus, limit: 2},
		{section: 'm', what: fmt.Sprintf("validate %d documents in %d files", o.Routes, documentFiles), figure: validated, form: seconds, limit: 2},
		{section: 'n', what: fmt.Sprintf("plan over %d routes that are right", o.Routes), figure: planned, form: seconds, limit: 1.5},
	}
	return slices.DeleteFunc(all, func(l line) bool { return !o.wants(string(l.section)) })
}
