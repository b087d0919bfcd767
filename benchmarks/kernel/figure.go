package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The figures, as trials name them.
const (
	routesAdded      = "routes added"
	routesRemoved    = "routes removed"
	addressesAdded   = "addresses added"
	addressesRemoved = "addresses removed"
	linksAdded       = "links added"
	linksRemoved     = "links removed"
	rulesAdded       = "rules added"
	rulesRemoved     = "rules removed"
	neighborsAdded   = "neighbors added"
	neighborsRemoved = "neighbors removed"
	tablesAdded      = "tables added"
	tablesRemoved    = "tables removed"
	setAdded         = "set added"
	filesAdded       = "files added"
	validated        = "validated"
	planned          = "planned"
	started          = "started"
	startNotes       = "notifications at start"
	idleCPU          = "idle CPU"
	idleMemory       = "idle memory"
	changeLatency    = "change latency"
	driftLatency     = "drift latency"
)

// The contestants. Parsing is what the source alone takes for the same documents,
// typical the median where ours is the 99th percentile.
const (
	ours    = "statehive"
	typical = "statehive, median"
	parsing = "parsing"
	theirs  = "peer"
)

// figure is what a trial has measured once: a line of JSON in its output.
type figure struct {
	Name  string
	Of    string
	Value float64 // in seconds, percent of a core, or megabytes
	Error string  `json:",omitempty"` // why there is no value
}

// figures are those of all trials.
type figures []figure

// values returns those of a name and a contestant.
func (all figures) values(name, of string) (values []float64) {
	for _, f := range all {
		if f.Name == name && f.Of == of && f.Error == "" {
			values = append(values, f.Value)
		}
	}
	return values
}

// failure returns why a figure was not measured, or nothing.
func (all figures) failure(name string) string {
	for _, f := range all {
		if f.Name == name && f.Error != "" {
			return f.Error
		}
	}
	return ""
}

// readFigures reads what a trial prints, up to its end.
func readFigures(r io.Reader) (all figures, err error) {
	for decoder := json.NewDecoder(r); ; {
		var f figure
		switch err := decoder.Decode(&f); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("the output of a trial: %w", err)
		}
		all = append(all, f)
	}
}
