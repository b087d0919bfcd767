package rule

import (
	"context"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
)

// event is a decoded notification.
type event struct {
	number uint64 // sequence number of the notification
	rule   Seen   // without its order
	gone   bool
}

// keeper keeps the table of a mirror. It belongs to one goroutine, except for decode.
type keeper struct {
	target  *Target
	table   *statedb.RWTable[Seen]
	changes atomic.Uint64 // number of notifications
	listed  uint64        // number of the last notification whose change the listing included
}

// decode reads a notification.
func (k *keeper) decode(m syscall.NetlinkMessage) (e event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWRULE:
	case unix.RTM_DELRULE:
		e.gone = true
	default:
		return e, false
	}
	if e.rule, ok = decodeRule(m); ok {
		e.number = k.changes.Add(1)
	}
	return e, ok
}

// list returns all rules. It lists again if rules were added or removed meanwhile, because
// the kernel then skips other rules without reporting an error.
func (k *keeper) list(ctx context.Context, drain func() error) (rules []Seen, err error) {
	rules, k.listed, err = mirror.ListQuietly(drain, &k.changes, func() ([]Seen, bool, error) {
		rules, err := k.target.list(ctx)
		return rules, false, err
	})
	return rules, err
}

// apply applies an event to the table. Several rules may be equal, so a rule that the listing
// included must not be counted again.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	if e.number <= k.listed {
		return "", nil
	}
	s, found := e.rule, false
	for is := range k.table.List(txn, SeenByRule.Query(s.Key)) {
		if !e.gone {
			s.Order = is.Order + 1
			continue
		}
		if s.Order = is.Order; s == is { // the kernel removes the first of several
			found = true
			break
		}
	}
	switch {
	case !e.gone:
		_, _, err = k.table.Insert(txn, s)
	case found:
		_, _, err = k.table.Delete(txn, s)
	default:
		doubt = "an unknown rule was removed"
	}
	return doubt, err
}
