package status

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// statusYAML is a status in YAML, which has the same fields in JSON.
type statusYAML struct {
	Kind  Kind      `yaml:"kind"`
	Since time.Time `yaml:"since,omitempty"`
	Error string    `yaml:"error,omitempty"`
}

// MarshalYAML returns the value that a YAML library encodes instead.
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

// UnmarshalYAML decodes a status with the function that a YAML library passes. An unknown kind is
// an error. Only the text of an error is restored.
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

// MarshalYAML returns the value that a YAML library encodes instead: a mapping with a status for
// each name.
func (s Set) MarshalYAML() (any, error) { return s.byName(), nil }

// UnmarshalYAML decodes a set with the function that a YAML library passes. Unknown kinds are
// errors; duplicate names are refused by the YAML libraries.
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
