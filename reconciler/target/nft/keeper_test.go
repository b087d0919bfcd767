package nft

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// TestManyNotificationsOfOneChangeAreOneEvent: a set of many elements must not fill the
// mirror with events.
func TestManyNotificationsOfOneChangeAreOneEvent(t *testing.T) {
	const own, other = 7, 8
	k := &keeper{target: &Target{port: own}}
	notify := func(message uint16, table string, generation byte, port uint32) bool {
		r := rtnl.TablesRequest(message, 0, Inet.number())
		r.Data[3] = generation
		r.AddString(unix.NFTA_SET_ELEM_LIST_TABLE, table)
		_, ok := k.decode(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: r.Type, Pid: port}, Data: r.Data})
		return ok
	}
	for i, c := range []struct {
		message    uint16
		table      string
		generation byte
		port       uint32
		event      bool
	}{
		{unix.NFT_MSG_NEWSETELEM, "a", 1, other, true},
		{unix.NFT_MSG_NEWSETELEM, "a", 1, other, false},
		{unix.NFT_MSG_DELRULE, "a", 1, other, false},
		{unix.NFT_MSG_DELRULE, "b", 1, other, true},
		{unix.NFT_MSG_DELRULE, "b", 2, other, true}, // the end of the one before may have been lost
		{unix.NFT_MSG_NEWTABLE, "b", 2, other, true},
		{unix.NFT_MSG_NEWRULE, "b", 2, other, true},
		{unix.NFT_MSG_NEWRULE, "c", 3, own, false}, // it is as the mark of the table says
		{unix.NFT_MSG_NEWTABLE, "c", 3, own, true},
	} {
		if got := notify(c.message, c.table, c.generation, c.port); got != c.event {
			t.Errorf("notification %d: event %v, expected %v", i, got, c.event)
		}
	}
	for _, m := range []syscall.NetlinkMessage{{}, {Header: syscall.NlMsghdr{Type: unix.NFNL_SUBSYS_NFTABLES << 8}, Data: []byte{1}}} {
		if _, ok := k.decode(m); ok {
			t.Errorf("%+v is taken for an event", m)
		}
	}
}
