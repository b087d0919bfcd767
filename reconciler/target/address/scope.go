package address

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// changesScope reports whether the scope of an address has to change.
func (s state) changesScope() bool {
	return slices.ContainsFunc(s.changes, func(c reconciler.Change) bool { return c.Field == "scope" })
}

// checkScopes refuses scopes that the kernel would refuse. It wants the same scope for all IPv4 addresses of a network on a device, and
// cannot change one, so the address would be gone by then.
func (u *updates) checkScopes(txn statedb.ReadTxn) {
	var all []kernelAddress
	for i, s := range u.states {
		if u.results[i].Err != nil || !s.changesScope() {
			continue
		}
		if all == nil {
			if all, u.results[i].Err = u.target.list(u.ctx, unix.AF_INET); u.results[i].Err != nil {
				continue
			}
		}
		want := s.row.Scope.Number(unix.RT_SCOPE_UNIVERSE)
		for _, other := range all {
			same := other.Index == s.index && other.Address != s.key.Address && other.Address.Masked() == s.key.Address.Masked()
			if same && other.scope.Number(unix.RT_SCOPE_UNIVERSE) != want && !u.target.isToHaveScope(txn, s.row.Device, other, want) {
				u.results[i].Err = fmt.Errorf(
					"change scope of address %s on %s to %v: %s is in the same network and has scope %v, and the kernel wants the same for both: it stays as it is",
					s.key.Address, s.key.Device, rtnl.ScopeOf(want), other.Address, other.scope)
				break
			}
		}
	}
}

// isToHaveScope reports whether a row gives an existing IPv4 address of a device a scope, and can.
func (t *Target) isToHaveScope(txn statedb.ReadTxn, device string, is kernelAddress, scope byte) bool {
	if t.rows == nil {
		return false
	}
	key := Key{device, is.Address}
	row, _, found := t.rows.Get(txn, ByKey.Query(key))
	rec, known := t.records.Get(key.String())
	ours := row.Adopt || t.isOurs(Seen{Index: is.Index, Ours: is.ours}, rec, known)
	return found && ours && row.Scope.Number(unix.RT_SCOPE_UNIVERSE) == scope
}

// clear removes addresses of another scope, because the kernel cannot change the scope, and duplicate ones.
func (u *updates) clear() {
	var at []int
	var recs []record
	for i, s := range u.states {
		if u.results[i].Err == nil && s.present && (s.duplicate || s.changesScope()) {
			at, recs = append(at, i), append(recs, record{Key: s.key, Index: s.index})
		}
	}
	for n, err := range u.target.remove(u.ctx, recs) {
		u.results[at[n]].Err = err
		u.states[at[n]].present, u.states[at[n]].cleared = false, err == nil
	}
}

// putBack adds the addresses again that were removed for another scope that the kernel has refused.
func (u *updates) putBack() {
	var requests []rtnl.Request
	for i, s := range u.states {
		if u.results[i].Err != nil && s.cleared && !s.duplicate {
			s.row.Scope, s.row.ValidLifetime, s.row.PreferredLifetime = s.is.Scope, s.is.ValidLifetime, s.is.PreferredLifetime
			requests = append(requests, s.making(unix.NLM_F_CREATE|unix.NLM_F_EXCL))
			if err := u.target.records.Put(s.key.String(), s.recordOf(false)); err != nil {
				u.results[i].Err = errors.Join(u.results[i].Err, err)
			}
		}
	}
	if len(requests) > 0 {
		u.target.conn.Execute(context.WithoutCancel(u.ctx), requests) // if that fails too, the row's own error says why
	}
}
