package nft

import (
	"reflect"
	"strconv"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Table is a row: a table of nftables with all its content. Rows are values: the elements of
// their slices are never changed.
type Table struct {
	Name   string  `yaml:"name" json:"name" doc:"Name of the table." schema:"required"`
	Family Family  `yaml:"family" json:"family" doc:"Packets that the table sees: inet is IPv4 and IPv6." schema:"enum=inet ip ip6"`
	Sets   []Set   `yaml:"sets" json:"sets,omitempty" doc:"Addresses or ports that rules match as @NAME."`
	Chains []Chain `yaml:"chains" json:"chains,omitempty" doc:"Lists of rules."`
	// Adopt takes over a table of others with the same key.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Replace a table of others that has the same family and name."`
	Status reconciler.Status `yaml:"-" json:"status"`

	digest   string // of the content; a row outside a table may have none
	observed bool   // the row only identifies an existing table: it is from Observe
}

// Set is a named set of addresses or ports.
type Set struct {
	Name string `yaml:"name" json:"name" doc:"Name of the set." schema:"required"`
	// Type is IPv4Addr, IPv6Addr or InetService.
	Type string `yaml:"type" json:"type" doc:"What the elements are." schema:"required,enum=ipv4_addr ipv6_addr inet_service"`
	// Elements are addresses, prefixes and ranges of them, or ports and ranges of them.
	// They may overlap.
	Elements []Element `yaml:"elements" json:"elements,omitempty" doc:"Addresses, prefixes and ranges of them, or ports and ranges of them."`
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
	Name string `yaml:"name" json:"name" doc:"Name of the chain." schema:"required"`
	// Hook is prerouting, input, forward, output or postrouting; empty if not a base chain.
	Hook string `yaml:"hook" json:"hook,omitempty" doc:"Where packets come into the chain; without it, rules of other chains jump to it." schema:"enum=prerouting input forward output postrouting"`
	// Priority orders the base chains of a hook, the lowest first.
	Priority Priority `yaml:"priority" json:"priority,omitzero" doc:"Order of the chains of a hook, the lowest first: a number or raw, mangle, dstnat, filter, security, srcnat."`
	// Policy says what happens to packets that no rule of a base chain decides about: accept
	// or drop. An empty policy means accept.
	Policy string `yaml:"policy" json:"policy,omitempty" doc:"What becomes of packets that no rule decides about, accept without it." schema:"enum=accept drop"`
	// Type of a base chain: filter, nat or route. An empty type means nat if a rule that its
	// packets can reach translates addresses, else filter.
	Type  string `yaml:"type" json:"type,omitempty" doc:"Type of a chain with a hook, nat or filter without it." schema:"enum=filter nat route"`
	Rules []Rule `yaml:"rules" json:"rules,omitempty" doc:"Rules in their order."`
}

// Rule says what happens to the packets that match. Exactly one of the fields after
// Counter must be given.
type Rule struct {
	Match Match `yaml:"match" json:"match,omitzero" doc:"Packets that the rule is about, all without it."`
	// Counter counts the packets that match.
	Counter    bool        `yaml:"counter" json:"counter,omitempty" doc:"Count the packets that match."`
	Accept     bool        `yaml:"accept" json:"accept,omitempty" doc:"Let the packet pass."`
	Drop       bool        `yaml:"drop" json:"drop,omitempty" doc:"Drop the packet silently."`
	Reject     bool        `yaml:"reject" json:"reject,omitempty" doc:"Drop the packet and answer that the port is unreachable."` // with "port unreachable"
	Jump       string      `yaml:"jump" json:"jump,omitempty" doc:"Go through the chain of this name."`                           // the name of a chain
	Masquerade bool        `yaml:"masquerade" json:"masquerade,omitempty" doc:"Replace the source address by that of the interface."`
	Snat       Translation `yaml:"snat" json:"snat,omitzero" doc:"Replace the source address, and the port if one is given: ADDRESS[:PORT]."`
	Dnat       Translation `yaml:"dnat" json:"dnat,omitzero" doc:"Replace the destination address, and the port if one is given: ADDRESS[:PORT]."`
}

// Match selects the packets of a rule: a packet must match all given fields. Without any
// field, all packets match.
type Match struct {
	// Iif and Oif are names of interfaces, which need not exist. A star at the end
	// stands for any rest.
	Iif     string    `yaml:"iif" json:"iif,omitempty" doc:"Name of the interface that the packet came by; eth* is any that begins so."`
	Oif     string    `yaml:"oif" json:"oif,omitempty" doc:"Name of the interface that the packet leaves by; eth* is any that begins so."`
	Saddr   Addresses `yaml:"saddr" json:"saddr,omitzero" doc:"Source: an address, a prefix or @SET."`
	Daddr   Addresses `yaml:"daddr" json:"daddr,omitzero" doc:"Destination: an address, a prefix or @SET."`
	Proto   Protocol  `yaml:"proto" json:"proto,omitempty" doc:"Transport protocol: tcp, udp, icmp, icmpv6 or a number."`
	Sport   Ports     `yaml:"sport" json:"sport,omitzero" doc:"Source port: a number, a range or @SET."`
	Dport   Ports     `yaml:"dport" json:"dport,omitzero" doc:"Destination port: a number, a range or @SET."`
	CtState []string  `yaml:"ctstate" json:"ctstate,omitempty" doc:"States of the connection, any of them." schema:"enum=new established related invalid untracked"` // any of them
	Mark    Mark      `yaml:"mark" json:"mark,omitzero" doc:"Mark of the packet, as 0x10, or some bits of it, as 0x10/0xff."`
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

// columns show the size of a table instead of its content, which may be too long to read.
func columns() []statedb.Column[Table] {
	return []statedb.Column[Table]{
		{Name: "Table", Cell: func(t Table) string { return t.Key().String() }},
		{Name: "Sets", Cell: func(t Table) string { return strconv.Itoa(len(t.Sets)) }},
		{Name: "Elements", Cell: func(t Table) string {
			n := 0
			for _, set := range t.Sets {
				n += len(set.Elements)
			}
			return strconv.Itoa(n)
		}},
		{Name: "Chains", Cell: func(t Table) string { return strconv.Itoa(len(t.Chains)) }},
		{Name: "Rules", Cell: func(t Table) string {
			n := 0
			for _, chain := range t.Chains {
				n += len(chain.Rules)
			}
			return strconv.Itoa(n)
		}},
		{Name: "Adopt", Cell: func(t Table) string { return strconv.FormatBool(t.Adopt) }},
		{Name: "Status", Cell: func(t Table) string { return t.Status.String() }},
	}
}

// Default returns the defaults of fields that a document leaves out: the family inet.
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

// Equal reports whether two rows are equal, comparing all fields literally.
func (t Table) Equal(other Table) bool {
	if t.digest != "" && other.digest != "" && t.digest != other.digest {
		return false
	}
	t.digest, other.digest = "", ""
	return reflect.DeepEqual(t, other)
}

// digested returns the row with its digest computed again. An invalid row has none.
func (t Table) digested() Table {
	t.digest = ""
	if requests, err := t.requests(); err == nil {
		t.digest = contentOf(requests).digest()
	}
	return t
}
