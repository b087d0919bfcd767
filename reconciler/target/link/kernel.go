package link

import (
	"crypto/rand"
	"fmt"
	"net"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// change is a change to an existing link, with the request that makes it.
type change struct {
	reconciler.Change
	request rtnl.Request
	does    string // description, such as "set link a0 up"
	err     error  // why the change cannot be made, or nil
}

func flag(up bool) uint32 {
	if up {
		return unix.IFF_UP
	}
	return 0
}

func setUp(name string, index int, is, up bool) change {
	word := "down"
	if up {
		word = "up"
	}
	return change{
		Change:  reconciler.Change{Field: "up", Is: strconv.FormatBool(is), Want: strconv.FormatBool(up)},
		request: rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, flag(up), unix.IFF_UP),
		does:    fmt.Sprintf("set link %s %s", name, word),
	}
}

func setMTU(name string, index int, is, mtu uint32) change {
	request := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, 0, 0)
	request.AddUint32(unix.IFLA_MTU, mtu)
	return change{
		Change:  reconciler.Change{Field: "mtu", Is: number(is), Want: number(mtu)},
		request: request, does: fmt.Sprintf("set the MTU of link %s to %d", name, mtu),
	}
}

func setMAC(name string, index int, is, mac string) change {
	request := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, 0, 0)
	address, err := net.ParseMAC(mac)
	request.Add(unix.IFLA_ADDRESS, address)
	return change{
		Change:  reconciler.Change{Field: "mac", Is: is, Want: mac},
		request: request, does: fmt.Sprintf("set the hardware address of link %s to %s", name, mac), err: err,
	}
}

func masterChange(is, want string) reconciler.Change {
	return reconciler.Change{Field: "master", Is: is, Want: want}
}

// setMaster makes a link a port of another link, or of none if master is 0.
func setMaster(name string, index int, is, want string, master int) change {
	request := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, 0, 0)
	request.AddUint32(unix.IFLA_MASTER, uint32(master))
	does := fmt.Sprintf("make link %s a port of %s", name, want)
	if master == 0 {
		does = fmt.Sprintf("take link %s out of %s", name, is)
	}
	return change{Change: masterChange(is, want), request: request, does: does}
}

func setAlias(name string, index int, is, want string) change {
	request := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, 0, 0)
	request.Add(unix.IFLA_IFALIAS, []byte(want))
	return change{
		Change:  reconciler.Change{Field: "alias", Is: is, Want: want},
		request: request, does: "set the alias of link " + name,
	}
}

func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// creation returns the request that creates a link with a hardware address of our
// choice. If the row sets a hardware address or a master, the link stays down until these
// are set.
func creation(row Link, mac net.HardwareAddr) rtnl.Request {
	up := row.Up && row.MAC == "" && row.Master == ""
	r := rtnl.LinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, flag(up), unix.IFF_UP)
	r.AddString(unix.IFLA_IFNAME, row.Name)
	r.Add(unix.IFLA_ADDRESS, mac)
	if row.MTU != 0 {
		r.AddUint32(unix.IFLA_MTU, row.MTU)
	}
	r.Nest(unix.IFLA_LINKINFO, func() {
		r.AddString(unix.IFLA_INFO_KIND, row.Type)
		if row.Type != Veth {
			return
		}
		r.Nest(unix.IFLA_INFO_DATA, func() {
			r.Nest(nl.VETH_INFO_PEER, func() {
				r.Data = append(r.Data, make([]byte, unix.SizeofIfInfomsg)...)
				r.AddString(unix.IFLA_IFNAME, row.Peer)
				if row.MTU != 0 {
					r.AddUint32(unix.IFLA_MTU, row.MTU)
				}
			})
		})
	})
	return r
}

// deletion returns the request that removes the link that was looked up, and no other.
func (s state) deletion() rtnl.Request {
	return rtnl.LinkRequest(unix.RTM_DELLINK, 0, s.link.Index, 0, 0)
}

// renaming returns the request that gives a link another name. Before Linux 6.2 the kernel refuses that while the link is up.
func renaming(index int, name string) rtnl.Request {
	r := rtnl.LinkRequest(unix.RTM_NEWLINK, 0, index, 0, 0)
	r.AddString(unix.IFLA_IFNAME, name)
	return r
}

// deletionOf returns the request that removes the link with a name.
func deletionOf(name string) rtnl.Request {
	r := rtnl.LinkRequest(unix.RTM_DELLINK, 0, 0, 0, 0)
	r.AddString(unix.IFLA_IFNAME, name)
	return r
}

// creationChanges returns the changes that creating the link of a row makes.
func creationChanges(row Link) []reconciler.Change {
	var changes []reconciler.Change
	for _, field := range []reconciler.Change{
		{Field: "type", Want: row.Type},
		{Field: "peer", Want: row.Peer},
		{Field: "master", Want: row.Master},
		{Field: "mac", Want: row.MAC},
		{Field: "mtu", Want: number(row.MTU)},
		{Field: "up", Want: strconv.FormatBool(row.Up)},
	} {
		if field.Want != "" {
			changes = append(changes, field)
		}
	}
	return changes
}

// recreationChanges returns the differences of a link of ours that has to be recreated, and says that it will be.
func recreationChanges(s state, row Link) []reconciler.Change {
	changes := []reconciler.Change{{Field: "recreate", Want: "true"}}
	for _, field := range []reconciler.Change{
		{Field: "type", Is: s.link.Type, Want: row.Type},
		{Field: "peer", Is: s.peer, Want: row.Peer},
	} {
		if field.Is != field.Want {
			changes = append(changes, field)
		}
	}
	return changes
}

// adoptionChanges returns the changes to a link of others that is taken over.
func adoptionChanges(s state, row Link) []reconciler.Change {
	s.rec = takenOver(s)
	return asChanges(s.attributes(row))
}

func asChanges(due []change) []reconciler.Change {
	var changes []reconciler.Change
	for _, c := range due {
		changes = append(changes, c.Change)
	}
	return changes
}

// randomMAC returns a locally administered unicast address.
func randomMAC() (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	if _, err := rand.Read(mac); err != nil {
		return nil, fmt.Errorf("choose a hardware address: %w", err)
	}
	mac[0] = mac[0]&^1 | 2
	return mac, nil
}
