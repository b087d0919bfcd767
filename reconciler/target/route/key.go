package route

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// Table is the number of a routing table. Its text is the name of a table that exists on
// every machine, else the number.
type Table uint32

// The tables that exist on every machine.
const (
	DefaultTable Table = 253
	MainTable    Table = 254
	LocalTable   Table = 255
)

var tableNames = map[Table]string{DefaultTable: "default", MainTable: "main", LocalTable: "local"}

// String returns default, main, local, or the number.
func (t Table) String() string {
	if name, ok := tableNames[t]; ok {
		return name
	}
	return strconv.FormatUint(uint64(t), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (t Table) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes names and numbers.
func (t *Table) UnmarshalText(text []byte) error {
	for table, name := range tableNames {
		if name == string(text) {
			*t = table
			return nil
		}
	}
	number, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil || number == 0 {
		return fmt.Errorf("%q is not a routing table, expected main, local, default or a number from 1 to %d", text, uint32(math.MaxUint32))
	}
	*t = Table(number)
	return nil
}

// Key identifies a route in the kernel. Its family is the destination's family.
// Its text is as in "10.0.0.0/8 table 100 metric 5", "default" (of IPv4) and
// "default inet6"; the table main and the metric that the kernel chooses are
// left out.
type Key struct {
	Destination netip.Prefix
	Table       Table
	Metric      uint32
}

// ipv6Metric is the metric that the kernel gives an IPv6 route instead of 0.
const ipv6Metric = 1024

func usualMetric(family Family) uint32 {
	if family == Inet6 {
		return ipv6Metric
	}
	return 0
}

// keysOf returns the keys of rows.
func keysOf(rows []Route) []Key {
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = row.Key()
	}
	return keys
}

func (k Key) family() Family { return familyOf(k.Destination.Addr()) }

// String returns the text form.
func (k Key) String() string {
	text := To(k.Destination).String()
	if text == "default" && k.family() == Inet6 {
		text += " " + string(Inet6)
	}
	if k.Table != MainTable {
		text += " table " + k.Table.String()
	}
	if k.Metric != usualMetric(k.family()) {
		text += " metric " + strconv.FormatUint(uint64(k.Metric), 10)
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := parseKey(strings.Fields(string(text)))
	if err != nil {
		return fmt.Errorf("%q is not the key of a route: %w", text, err)
	}
	*k = parsed
	return nil
}

func parseKey(words []string) (Key, error) {
	if len(words) == 0 {
		return Key{}, errors.New("it is empty")
	}
	destination, err := ParseDestination(words[0])
	if err != nil {
		return Key{}, err
	}
	row := Route{Destination: destination}
	for words = words[1:]; len(words) > 0; {
		used, err := row.readKeyWord(words)
		if err != nil {
			return Key{}, err
		}
		words = words[used:]
	}
	return row.Key(), nil
}

// readKeyWord reads a family, a table or a metric from the start of words and returns the
// number of words read.
func (r *Route) readKeyWord(words []string) (used int, err error) {
	switch word := words[0]; {
	case word == string(Inet) || word == string(Inet6):
		r.Family = Family(word)
		return 1, nil
	case word == "table" && len(words) > 1:
		return 2, r.Table.UnmarshalText([]byte(words[1]))
	case word == "metric" && len(words) > 1:
		metric, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a metric, expected a number", words[1])
		}
		r.Metric = uint32(metric)
		return 2, nil
	default:
		return 0, fmt.Errorf("unexpected %q, expected a family, \"table\" with its name or number, or \"metric\" with its number", word)
	}
}
