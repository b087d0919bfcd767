package rule

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// Action is what happens to the packets that a rule matches, named as in ip(8).
type Action string

// The actions of rules. If the table has no route for a packet, Lookup goes on with the
// next rule.
const (
	Lookup      Action = "lookup"
	Blackhole   Action = "blackhole"
	Unreachable Action = "unreachable"
	Prohibit    Action = "prohibit"
)

// Rule is a row of the table: it says which packets the kernel routes by which table. A
// field that is left out matches all packets.
type Rule struct {
	// Priority orders the rules of a family, the lowest first.
	Priority uint32       `yaml:"priority" json:"priority" schema:"required" doc:"Order of evaluation: the rule with the lowest number comes first."`
	From     netip.Prefix `yaml:"from" json:"from,omitzero" doc:"Source prefix of packets."`
	To       netip.Prefix `yaml:"to" json:"to,omitzero" doc:"Destination prefix of packets."`
	Mark     Mark         `yaml:"mark" json:"mark,omitzero" doc:"Firewall mark of packets: a number, or number/mask, as 0x10/0xff."`
	// In is the device on which a packet came in, lo if this machine sent it. Out is
	// the device that the sending socket is bound to.
	In  string `yaml:"in" json:"in,omitempty" doc:"Name of the link on which packets come in; lo matches those that this machine sends."`
	Out string `yaml:"out" json:"out,omitempty" doc:"Name of the link that the sending socket is bound to."`
	// Table is the table to look in, only with Lookup; 0 means main.
	Table  route.Table `yaml:"table" json:"table,omitempty" doc:"Routing table to look in: main, which is the default, local, default or a number."`
	Action Action      `yaml:"action" json:"action" schema:"enum=lookup blackhole unreachable prohibit" doc:"What happens to the packets; lookup is the default."`
	// Family is only needed for IPv6 without From and To.
	Family route.Family `yaml:"family" json:"family" schema:"enum=inet inet6" doc:"Family, needed if there is neither from nor to; inet is the default."`
	// Adopt replaces rules that others made with the key.
	Adopt  bool              `yaml:"adopt" json:"adopt,omitempty" doc:"Whether rules that others made with the priority are replaced."`
	Status reconciler.Status `yaml:"-" json:"status"`
}

// ByKey is the primary index.
var ByKey = statedb.NewIndex("key", Rule.Key)

// Schema declares the table "rules".
func Schema() statedb.Schema[Rule] {
	return reconciler.Reconciled(statedb.Schema[Rule]{Name: "rules", Primary: ByKey, Secondary: []statedb.Indexer[Rule]{ByPackets, ByDevice}})
}

// Default returns the defaults of fields that a document leaves out.
func Default() Rule { return Rule{Action: Lookup} }

// Key returns family and priority. The row need not be normalized.
func (r Rule) Key() Key {
	r = r.completed()
	return Key{r.Family, r.Priority}
}

// GetStatus implements reconciler.Reconcilable.
func (r Rule) GetStatus() reconciler.Status { return r.Status }

// WithStatus implements reconciler.Reconcilable.
func (r Rule) WithStatus(status reconciler.Status) Rule {
	r.Status = status
	return r
}

// completed fills in the values that other fields determine. A prefix that matches everything
// is replaced by its family.
func (r Rule) completed() Rule {
	for _, prefix := range []netip.Prefix{r.From, r.To} {
		switch {
		case r.Family != "" || !prefix.IsValid():
		case prefix.Addr().Is4():
			r.Family = route.Inet
		default:
			r.Family = route.Inet6
		}
	}
	if r.Family == "" {
		r.Family = route.Inet
	}
	if r.Action == "" {
		r.Action = Lookup
	}
	if r.Table == 0 && r.Action == Lookup {
		r.Table = route.MainTable
	}
	return r
}

// Normalized checks the row and returns it with family, action and table filled in, and
// without prefixes that match everything. Errors are of type *reconciler.FieldError.
func (r Rule) Normalized() (Rule, error) {
	n := r.completed()
	for _, check := range []struct {
		field string
		err   error
	}{
		{"priority", checkPriority(n.Priority)},
		{"family", checkFamily(n.Family)},
		{"from", n.checkPrefix(n.From)},
		{"to", n.checkPrefix(n.To)},
		{"mark", n.Mark.check()},
		{"in", checkDevice(n.In)},
		{"out", checkDevice(n.Out)},
		{"action", checkAction(n.Action)},
		{"table", n.checkTable()},
	} {
		if check.err != nil {
			return r, &reconciler.FieldError{Field: check.field, Err: check.err}
		}
	}
	for _, prefix := range []*netip.Prefix{&n.From, &n.To} {
		if prefix.IsValid() && prefix.Bits() == 0 {
			*prefix = netip.Prefix{}
		}
	}
	return n, nil
}

func checkPriority(priority uint32) error {
	if priority == 0 {
		return fmt.Errorf("it is missing or 0, expected a number from 1 to %d: 0 is the priority of the kernel's own rule", uint32(math.MaxUint32))
	}
	return nil
}

func checkFamily(family route.Family) error {
	if family != route.Inet && family != route.Inet6 {
		return fmt.Errorf("%q is unknown, expected %s or %s", family, route.Inet, route.Inet6)
	}
	return nil
}

func (r Rule) checkPrefix(prefix netip.Prefix) error {
	switch {
	case !prefix.IsValid():
		return nil
	case prefix.Addr().Is4In6():
		return fmt.Errorf("%s is an IPv4 prefix written as IPv6, expected a prefix, as 10.10.0.0/16", prefix)
	case prefix.Addr().Is4() != (r.Family == route.Inet):
		return fmt.Errorf("%s is not of the rule's family, expected a prefix of %s", prefix, r.Family)
	case prefix != prefix.Masked():
		return fmt.Errorf("%s has bits set beyond its prefix length, expected %s", prefix, prefix.Masked())
	}
	return nil
}

func checkDevice(device string) error {
	if strings.ContainsAny(device, " \t\n/") || len(device) >= unix.IFNAMSIZ {
		return fmt.Errorf("%q is not the name of a link, expected one of at most %d bytes, as eth0", device, unix.IFNAMSIZ-1)
	}
	return nil
}

func checkAction(action Action) error {
	if _, known := actionNumbers[action]; !known {
		return fmt.Errorf("%q is unknown, expected %s, %s, %s or %s", action, Lookup, Blackhole, Unreachable, Prohibit)
	}
	return nil
}

func (r Rule) checkTable() error {
	if r.Table != 0 && r.Action != Lookup {
		return errors.New("only a rule with the action lookup has a table: leave it out")
	}
	return nil
}
