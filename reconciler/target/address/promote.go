package address

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// promotion is the record that is written under the name of a device before the kernel is
// told to promote the device's addresses.
type promotion struct {
	Index int    `json:"index"`
	Was   string `json:"was"` // the original setting
}

// beginPromotions makes the kernel promote addresses of devices until endPromotions.
func (t *Target) beginPromotions(ctx context.Context, devices map[int]bool) error {
	for index, shared := range devices {
		if !shared {
			continue
		}
		if err := t.promote(ctx, index); err != nil && !errors.Is(err, syscall.ENODEV) { // its addresses are gone, too
			return fmt.Errorf("keep the other addresses of a network when the first one goes: %w", err)
		}
	}
	return nil
}

func (t *Target) promote(ctx context.Context, index int) error {
	promotes, err := t.promotes(ctx, index)
	if err != nil || promotes != 0 {
		return err
	}
	if err := t.promotions.Put(t.conn.LinkName(ctx, index), promotion{index, "0"}); err != nil {
		return err
	}
	return t.setPromotes(ctx, index, 1)
}

// endPromotions restores the settings, even if ctx has ended.
func (t *Target) endPromotions(ctx context.Context) error {
	var errs []error
	for name, p := range t.promotions.All() {
		err := t.endPromotion(context.WithoutCancel(ctx), p)
		if err == nil {
			err = t.promotions.Remove(name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endPromotion restores a setting, unless others have changed it meanwhile. The device may have been renamed.
func (t *Target) endPromotion(ctx context.Context, p promotion) error {
	is, err := t.promotes(ctx, p.Index)
	if err == nil && is == 1 {
		var was uint64
		if was, err = strconv.ParseUint(p.Was, 10, 32); err == nil {
			err = t.setPromotes(ctx, p.Index, uint32(was))
		}
	}
	if errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// From linux/if_link.h and linux/ip.h. The setting is the sysctl net.ipv4.conf.DEVICE.promote_secondaries. It is asked for and set by netlink,
// because others can keep the directory of the sysctl busy for as long as they like. The kernel announces the device
// to all who listen each time that it is set.
const (
	settings4          = 1  // IFLA_INET_CONF
	promoteSecondaries = 20 // IPV4_DEVCONF_PROMOTE_SECONDARIES
)

// promotes returns the setting of a device.
func (t *Target) promotes(ctx context.Context, index int) (is uint32, err error) {
	err = t.conn.Get(ctx, rtnl.LinkRequest(unix.RTM_GETLINK, 0, index, 0, 0), func(m syscall.NetlinkMessage) {
		if len(m.Data) >= unix.SizeofIfInfomsg {
			is = promotesIn(m.Data[unix.SizeofIfInfomsg:])
		}
	})
	return is, err
}

// promotesIn returns the setting in the attributes of a device, or 0 if it has none because IPv4 is not used there.
func promotesIn(attributes []byte) uint32 {
	const at = 4 * (promoteSecondaries - 1)
	families := valueOf(attributes, unix.IFLA_AF_SPEC)
	if all := valueOf(valueOf(families, unix.AF_INET), settings4); len(all) >= at+4 {
		return rtnl.Uint32(all[at:])
	}
	return 0
}

// valueOf returns the value of the first attribute of a kind.
func valueOf(attributes []byte, kind uint16) []byte {
	for k, value := range rtnl.Attributes(attributes) {
		if k == kind {
			return value
		}
	}
	return nil
}

func (t *Target) setPromotes(ctx context.Context, index int, value uint32) error {
	request := rtnl.LinkRequest(unix.RTM_SETLINK, 0, index, 0, 0)
	request.Nest(unix.IFLA_AF_SPEC, func() {
		request.Nest(unix.AF_INET, func() {
			request.Nest(settings4, func() { request.AddUint32(promoteSecondaries, value) })
		})
	})
	return t.conn.Execute(ctx, []rtnl.Request{request})[0]
}
