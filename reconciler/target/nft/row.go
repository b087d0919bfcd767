package nft

import (
	"reflect"
	"strconv"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Table is the row: a table of nftables with all that is in it. Rows are values: what
// their slices have is never changed.
type Table struct {
	Name   string  `yaml:"name" json:"name"`
	Family Family  `yaml:"family" json:"family"`
	Sets   []Set   `yaml:"sets" json:"sets,omitempty"`
	Chains []Chain `yaml:"chains" json:"chains,omitempty"`
	// Adopt takes over a table of others with the same key.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty"`
	Status reconciler.Status `yaml:"-" json:"status"`

	digest string // of the content; a row that is in no table may have none
}

// Set is a named set of addresses or ports.
type Set struct {
	Name string `yaml:"name" json:"name"`
	// Type is IPv4Addr, IPv6Addr or InetService.
	Type string `yaml:"type" json:"type"`
	// Elements are addresses, prefixes and ranges of them, or ports and ranges of them.
	// They may overlap.
	Elements []Element `yaml:"elements" json:"elements,omitempty"`
}

// Types of sets, in the words of nft(8).
const (
	IPv4Addr    = "ipv4_addr"
	IPv6Addr    = "ipv6_addr"
	InetService = "inet_service"
)

// Chain is a list of rules. With a hook it is a base chain, through which packets go;
// without one, rules of other chains jump to it.
type Chain struct {
	Name string `yaml:"name" json:"name"`
	// Hook is prerouting, input, forward, output or postrouting; empty: no base chain.
	Hook string `yaml:"hook" json:"hook,omitempty"`
	// Priority orders the base chains of a hook, the lowest first.
	Priority Priority `yaml:"priority" json:"priority,omitzero"`
	// Policy says what becomes of packets that no rule of a base chain decides about:
	// accept, which an empty one means too, or drop.
	Policy string `yaml:"policy" json:"policy,omitempty"`
	// Type of a base chain: filter, nat or route. Empty: nat if a rule that it
	// leads to translates addresses, else filter.
	Type  string `yaml:"type" json:"type,omitempty"`
	Rules []Rule `yaml:"rules" json:"rules,omitempty"`
}

// Rule says what becomes of the packets that match. Exactly one of the fields behind
// Counter is given.
type Rule struct {
	Match Match `yaml:"match" json:"match,omitzero"`
	// Counter counts the packets that match.
	Counter    bool        `yaml:"counter" json:"counter,omitempty"`
	Accept     bool        `yaml:"accept" json:"accept,omitempty"`
	Drop       bool        `yaml:"drop" json:"drop,omitempty"`
	Reject     bool        `yaml:"reject" json:"reject,omitempty"` // with "port unreachable"
	Jump       string      `yaml:"jump" json:"jump,omitempty"`     // the name of a chain
	Masquerade bool        `yaml:"masquerade" json:"masquerade,omitempty"`
	Snat       Translation `yaml:"snat" json:"snat,omitzero"`
	Dnat       Translation `yaml:"dnat" json:"dnat,omitzero"`
}

// Match says which packets a rule is about: those of which all holds. Without any
// field, all packets.
type Match struct {
	// Iif and Oif are names of interfaces, which need not exist. A star at the end
	// stands for any rest.
	Iif     string    `yaml:"iif" json:"iif,omitempty"`
	Oif     string    `yaml:"oif" json:"oif,omitempty"`
	Saddr   Addresses `yaml:"saddr" json:"saddr,omitzero"`
	Daddr   Addresses `yaml:"daddr" json:"daddr,omitzero"`
	Proto   Protocol  `yaml:"proto" json:"proto,omitempty"`
	Sport   Ports     `yaml:"sport" json:"sport,omitzero"`
	Dport   Ports     `yaml:"dport" json:"dport,omitzero"`
	CtState []string  `yaml:"ctstate" json:"ctstate,omitempty"` // any of them
	Mark    Mark      `yaml:"mark" json:"mark,omitzero"`
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Table.Key)

// Schema declares the table "nft-tables".
func Schema() statedb.Schema[Table] {
	return reconciler.Reconciled(statedb.Schema[Table]{
		Name: "nft-tables", Primary: ByKey, Equal: Table.Equal,
		Defaulters: []func(statedb.ReadTxn, Table) (Table, error){
			func(_ statedb.ReadTxn, t Table) (Table, error) { return t.digested(), nil },
		},
		Columns: columns(),
	})
}

// columns tell how much there is in a table, which may be too much to read.
func columns() []statedb.Column[Table] {
	count := func(n int) string { return strconv.Itoa(n) }
	return []statedb.Column[Table]{
		{Name: "Table", Cell: func(t Table) string { return t.Key().String() }},
		{Name: "Sets", Cell: func(t Table) string { return count(len(t.Sets)) }},
		{Name: "Elements", Cell: func(t Table) string {
			n := 0
			for _, set := range t.Sets {
				n += len(set.Elements)
			}
			return count(n)
		}},
		{Name: "Chains", Cell: func(t Table) string { return count(len(t.Chains)) }},
		{Name: "Rules", Cell: func(t Table) string {
			n := 0
			for _, chain := range t.Chains {
				n += len(chain.Rules)
			}
			return count(n)
		}},
		{Name: "Adopt", Cell: func(t Table) string { return strconv.FormatBool(t.Adopt) }},
		{Name: "Status", Cell: func(t Table) string { return t.Status.String() }},
	}
}

// Default returns what the missing fields of a document mean: the family inet.
func Default() Table { return Table{Family: Inet} }

// Key returns family and name.
func (t Table) Key() Key { return Key{t.Family, t.Name} }

// GetStatus implements reconciler.Reconcilable.
func (t Table) GetStatus() reconciler.Status { return t.Status }

// WithStatus implements reconciler.Reconcilable.
func (t Table) WithStatus(status reconciler.Status) Table {
	t.Status = status
	return t
}

// Equal reports whether two rows are the same, text for text.
func (t Table) Equal(other Table) bool {
	if t.digest != "" && other.digest != "" && t.digest != other.digest {
		return false
	}
	t.digest, other.digest = "", ""
	return reflect.DeepEqual(t, other)
}

// digested returns the row with its digest, of whatever it was before. One that is
// wrong has none.
func (t Table) digested() Table {
	t.digest = ""
	if requests, err := t.requests(); err == nil {
		t.digest = contentOf(requests).digest()
	}
	return t
}
