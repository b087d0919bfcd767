package sysctl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/statedb"
)

// Sysctl is a row of the table: a kernel parameter and its desired value.
type Sysctl struct {
	// Name in either spelling of sysctl(8); Normalized converts it to the dotted one.
	Name string `yaml:"name" json:"name" schema:"required" doc:"Name of the parameter, as net.ipv4.ip_forward."`
	// Value as it is written; white space between its words does not matter.
	Value  string            `yaml:"value" json:"value" schema:"required" doc:"Value as it is written; white space between its words does not matter."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// Key identifies a sysctl: its dotted name.
type Key string

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Sysctl.Key)

// Schema declares the table "sysctls".
func Schema() statedb.Schema[Sysctl] {
	return reconciler.Reconciled(statedb.Schema[Sysctl]{Name: "sysctls", Primary: ByKey, Secondary: []statedb.Indexer[Sysctl]{ByDevice, byInherits}})
}

// Default returns the defaults of fields that a document leaves out.
func Default() Sysctl { return Sysctl{} }

// Key returns the name in its dotted spelling. It returns an invalid name unchanged.
func (s Sysctl) Key() Key {
	name, err := dotted(s.Name)
	if err != nil {
		return Key(s.Name)
	}
	return Key(name)
}

// GetStatus implements reconciler.Reconcilable.
func (s Sysctl) GetStatus() reconciler.Status { return s.Status }

// WithStatus implements reconciler.Reconcilable.
func (s Sysctl) WithStatus(status reconciler.Status) Sysctl {
	s.Status = status
	return s
}

// Normalized checks the row and returns it with the name dotted and the words
// of the value one space apart. Errors are of type *reconciler.FieldError.
func (s Sysctl) Normalized() (Sysctl, error) {
	name, err := dotted(s.Name)
	if err != nil {
		return s, &reconciler.FieldError{Field: "name", Err: err}
	}
	value, err := checkedValue(s.Value)
	if err != nil {
		return s, &reconciler.FieldError{Field: "value", Err: err}
	}
	s.Name, s.Value = name, value
	return s, nil
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes both spellings.
func (k *Key) UnmarshalText(text []byte) error {
	name, err := dotted(string(text))
	if err != nil {
		return err
	}
	*k = Key(name)
	return nil
}

// The same parameter has two names in the kernel. It is known by the first here, so that documents cannot contradict each other.
const (
	forwarding      = "net.ipv4.ip_forward"
	forwardingOfAll = "net.ipv4.conf.all.forwarding"
)

// dotted returns the dotted spelling of a name. As with sysctl(8), the separator
// that comes first tells which spelling it is.
func dotted(name string) (string, error) {
	const expected = `expected one like "net.ipv4.ip_forward" or "net/ipv4/conf/eth0.100/forwarding"`
	first := strings.IndexAny(name, "./")
	if first < 0 {
		return "", fmt.Errorf("%q is not the name of a sysctl: %s", name, expected)
	}
	given := name
	if name[first] == '/' {
		name = procsys.NameOf(name)
	}
	for part := range strings.SplitSeq(procsys.NameOf(name), "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, " \t\n\x00") {
			return "", fmt.Errorf("%q is not the name of a sysctl, it has a part %q: %s", given, part, expected)
		}
	}
	if name == forwardingOfAll {
		return forwarding, nil
	}
	return name, nil
}

func checkedValue(value string) (string, error) {
	switch {
	case strings.ContainsAny(strings.TrimSpace(value), "\n\r\x00"):
		return "", fmt.Errorf("%q has more than one line, expected one", value)
	case words(value) == "":
		return "", errors.New("it is empty, expected what to write, as 1")
	}
	return words(value), nil
}

// words converts a value to the form in which values are compared: the kernel
// uses tabs where people use spaces.
func words(value string) string { return strings.Join(strings.Fields(value), " ") }
