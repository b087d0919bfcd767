package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is the state of a row with respect to its reconciler.
type Kind uint8

const (
	// Pending: the newest spec has not been applied yet. It is the zero value.
	Pending Kind = iota
	// Done: the newest spec has been applied.
	Done
	// Error: the last attempt to apply the newest spec failed.
	Error
)

var kindNames = [...]string{Pending: "pending", Done: "done", Error: "error"}

// String returns pending, done or error.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("StatusKind(%d)", k)
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, fmt.Errorf("status kind %d is unknown", k)
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. Unknown kinds are errors.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, name := range kindNames {
		if name == string(text) {
			*k = Kind(kind)
			return nil
		}
	}
	return fmt.Errorf("status kind %q is unknown, expected pending, done or error", text)
}

// Status is the state of a row with respect to one reconciler. It is part of the row, written
// only by the reconciler, and comparable. The zero value is pending, so that a new row costs
// nothing.
type Status struct {
	kind  Kind
	since int64 // Unix time in nanoseconds; 0 while pending
	err   *error
}

// Kind returns the kind of the status.
func (s Status) Kind() Kind { return s.kind }

// Since returns when the row entered this status; zero while it is pending.
func (s Status) Since() time.Time {
	if s.since == 0 {
		return time.Time{}
	}
	return time.Unix(0, s.since)
}

// Err returns the error of the last attempt, or nil. It is the error as the target returned it,
// for use with errors.Is and errors.As.
func (s Status) Err() error {
	if s.err == nil {
		return nil
	}
	return *s.err
}

// String returns the kind, with the error if there is one.
func (s Status) String() string {
	if s.err != nil {
		return s.kind.String() + ": " + (*s.err).Error()
	}
	return s.kind.String()
}

type statusJSON struct {
	Kind  Kind       `json:"kind"`
	Since *time.Time `json:"since,omitempty"`
	Error string     `json:"error,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Status) MarshalJSON() ([]byte, error) {
	text := statusJSON{Kind: s.kind}
	if s.since != 0 {
		since := s.Since().UTC()
		text.Since = &since
	}
	if err := s.Err(); err != nil {
		text.Error = err.Error()
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements json.Unmarshaler. An unknown kind is an error. Only the text of an
// error is restored.
func (s *Status) UnmarshalJSON(data []byte) error {
	var text statusJSON
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	since := time.Time{}
	if text.Since != nil {
		since = *text.Since
	}
	read, err := readStatus(text.Kind, since, text.Error)
	if err == nil {
		*s = read
	}
	return err
}

// readStatus returns the status for decoded fields.
func readStatus(kind Kind, since time.Time, text string) (s Status, err error) {
	s.kind = kind
	switch {
	case kind != Error && text != "":
		return s, fmt.Errorf("status has kind %v and error %q, which only kind error has", kind, text)
	case kind == Error:
		failure := errors.New(cmp.Or(text, "unknown error"))
		s.err = &failure
	}
	if kind == Pending || since.IsZero() {
		return s, nil
	}
	if s.since = since.UnixNano(); !time.Unix(0, s.since).Equal(since) {
		return s, fmt.Errorf("status is since %v, expected a time from 1678 to 2262", since)
	}
	return s, nil
}

// After returns the status after an attempt that began with status s and ended with err. If the
// kind does not change, neither does the time.
func (s Status) After(err error, now time.Time) Status {
	next := Status{kind: Done, since: now.UnixNano()}
	if err != nil {
		failure := err
		next.kind, next.err = Error, &failure
	}
	if s.kind == next.kind {
		next.since = s.since
	}
	if s.err != nil && err != nil && (*s.err).Error() == err.Error() {
		next.err = s.err
	}
	return next
}
