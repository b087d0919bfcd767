package status

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// statusYAML is the form of a status in YAML, which is that in JSON.
type statusYAML struct {
	Kind  Kind      `yaml:"kind"`
	Since time.Time `yaml:"since,omitempty"`
	Error string    `yaml:"error,omitempty"`
}

// MarshalYAML returns what a YAML library is to write instead.
func (s Status) MarshalYAML() (any, error) {
	if _, err := s.kind.MarshalText(); err != nil {
		return nil, err
	}
	text := statusYAML{Kind: s.kind}
	if s.since != 0 {
		text.Since = s.Since().UTC()
	}
	if err := s.Err(); err != nil {
		text.Error = err.Error()
	}
	return text, nil
}

// UnmarshalYAML takes what a YAML library has read. Unknown kinds are errors; of
// an error only the text comes back.
func (s *Status) UnmarshalYAML(unmarshal func(any) error) error {
	var text statusYAML
	if err := unmarshal(&text); err != nil {
		return err
	}
	read, err := readStatus(text.Kind, text.Since, text.Error)
	if err == nil {
		*s = read
	}
	return err
}

// MarshalYAML returns what a YAML library is to write instead: a mapping with a
// status for each name.
func (s Set) MarshalYAML() (any, error) { return s.byName(), nil }

// UnmarshalYAML takes what a YAML library has read. Unknown kinds are errors, and
// so are, to the libraries, names that come twice.
func (s *Set) UnmarshalYAML(unmarshal func(any) error) error {
	var named map[string]Status
	if err := unmarshal(&named); err != nil {
		return fmt.Errorf("statuses: %w", err)
	}
	*s = Set{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		*s = s.With(name, named[name])
	}
	return nil
}
