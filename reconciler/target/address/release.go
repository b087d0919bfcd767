package address

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// release removes the addresses of records that are ours, and still are what we added.
func (t *Target) release(ctx context.Context, recs []record) []error {
	if t.marks && len(recs) > 0 {
		var err error
		if recs, err = t.sparing(ctx, recs); err != nil {
			return slices.Repeat([]error{err}, len(recs))
		}
	}
	return t.remove(ctx, recs)
}

// sparing returns records according to which an address that others have added in place of ours existed before us.
func (t *Target) sparing(ctx context.Context, recs []record) ([]record, error) {
	present, err := t.present(ctx)
	replaced := func(rec record) bool {
		s, found := present(rec.seenKey())
		return found && !rec.Existed && !t.isOurs(s, rec, true)
	}
	if err == nil && slices.ContainsFunc(recs, replaced) {
		present, err = t.presentNow(ctx, unix.AF_UNSPEC) // the mirror may not know of the mark of a tentative address
	}
	if err != nil {
		return recs, err
	}
	recs = slices.Clone(recs)
	for i, rec := range recs {
		if replaced(rec) {
			recs[i].Existed = true
			t.tellReplaced(rec.Key)
		}
	}
	return recs, nil
}

// tellReplaced logs that others have added an address in place of ours.
func (t *Target) tellReplaced(key Key) {
	t.log.Warn("An address of the agent was replaced by somebody else, or lost its protocol, and is left as it is",
		"address", key.Address, "device", key.Device)
}

// remove removes the addresses of records that are ours. Devices are
// found by their indexes, because they may have been renamed.
//
// When the first IPv4 address of a network is removed, the kernel removes all other addresses of
// that network, and with the last address of a device all its routes, unless it is told to
// promote another address. remove sets that while addresses are removed.
func (t *Target) remove(ctx context.Context, recs []record) []error {
	outcomes := make([]error, len(recs))
	var at []int
	var requests []rtnl.Request
	for i, rec := range recs {
		if !rec.Existed {
			at = append(at, i)
			requests = append(requests, rec.seenKey().request(unix.RTM_DELADDR, 0))
		}
	}
	if len(at) == 0 {
		return outcomes
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.endLifetimes(ctx, recs); err != nil {
		return fail(outcomes, at, err)
	}
	shared, err := t.sharedNetworks(ctx, recs)
	if err != nil {
		return fail(outcomes, at, err)
	}
	if err := t.beginPromotions(ctx, shared); err != nil {
		return fail(outcomes, at, errors.Join(err, t.endPromotions(ctx)))
	}
	for n, err := range t.conn.Execute(ctx, requests) {
		key := recs[at[n]].Key
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENODEV) {
			outcomes[at[n]] = fmt.Errorf("remove address %s from %s: %w", key.Address, key.Device, err)
		}
	}
	if err := t.endPromotions(ctx); err != nil {
		return fail(outcomes, at, err)
	}
	return outcomes
}

// endLifetimes makes the IPv6 addresses of records permanent that are to expire. With those that expire, the kernel does not
// remove the routes to their networks, but lets these expire.
func (t *Target) endLifetimes(ctx context.Context, recs []record) error {
	is6 := func(rec record) bool { return !rec.Existed && rec.Key.Address.Addr().Is6() }
	if !slices.ContainsFunc(recs, is6) {
		return nil
	}
	present, err := t.present(ctx)
	if err != nil {
		return err
	}
	var requests []rtnl.Request
	for _, rec := range recs {
		if s, found := present(rec.seenKey()); found && is6(rec) && (s.ValidLifetime != Forever || s.Tentative) {
			request := rec.seenKey().request(unix.RTM_NEWADDR, unix.NLM_F_REPLACE)
			request.Add(attributeProtocol, []byte{Protocol})
			requests = append(requests, request)
		}
	}
	t.conn.Execute(ctx, requests) // that it is gone, or cannot be removed, is found next
	return nil
}

// fail adds an error to outcomes.
func fail(outcomes []error, at []int, err error) []error {
	for _, i := range at {
		outcomes[i] = errors.Join(outcomes[i], err)
	}
	return outcomes
}

// sharedNetworks returns the indexes of the devices that have several addresses in the IPv4
// network of one of the records.
func (t *Target) sharedNetworks(ctx context.Context, recs []record) (devices map[int]bool, err error) {
	ours := map[SeenKey]bool{} // networks
	for _, rec := range recs {
		if rec.Key.Address.Addr().Is4() && !rec.Existed {
			ours[networkOf(rec.seenKey())] = true
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	devices = map[int]bool{}
	known := map[SeenKey]bool{}
	count := func(key SeenKey) {
		network := networkOf(key)
		devices[key.Index] = devices[key.Index] || ours[network] && known[network]
		known[network] = true
	}
	if view := t.mirror.Load().View(ctx); view.Reliable() {
		counted := map[int]bool{}
		for network := range ours {
			if counted[network.Index] {
				continue
			}
			counted[network.Index] = true
			for s := range onDevice(view.Txn, view.Table, network.Index) {
				count(SeenKey{s.Index, s.Address})
			}
		}
		return devices, nil
	}
	addresses, err := t.list(ctx, unix.AF_INET)
	for _, a := range addresses {
		count(a.SeenKey)
	}
	return devices, err
}

// networkOf returns the network of an address, by the kernel's definition of a network.
func networkOf(key SeenKey) SeenKey { return SeenKey{key.Index, key.Address.Masked()} }
