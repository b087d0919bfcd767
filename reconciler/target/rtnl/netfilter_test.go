package rtnl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func dialTables(t *testing.T) *Conn {
	t.Helper()
	conn, err := DialNetfilter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func tableRequest(message, flags uint16, name string) Request {
	r := TablesRequest(message, flags, unix.NFPROTO_INET)
	r.AddString(unix.NFTA_TABLE_NAME, name)
	return r
}

func newTable(name string) Request {
	return tableRequest(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, name)
}

func deleteTable(name string) Request { return tableRequest(unix.NFT_MSG_DELTABLE, 0, name) }

// tableNames lists the tables.
func tableNames(t *testing.T, conn *Conn) string {
	t.Helper()
	names, err := Dump(t.Context(), conn, TablesRequest(unix.NFT_MSG_GETTABLE, 0, unix.NFPROTO_UNSPEC), func(m syscall.NetlinkMessage) (string, bool) {
		message, _, attributes, ok := TablesMessage(m)
		for kind, value := range Attributes(attributes) {
			if kind == unix.NFTA_TABLE_NAME {
				return String(value), ok && message == unix.NFT_MSG_NEWTABLE
			}
		}
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestATransactionIsDoneAsAWholeOrNotAtAll(t *testing.T) {
	conn := dialTables(t)
	if err := conn.Transact(t.Context(), []Request{newTable("a"), newTable("b")}); err != nil {
		t.Fatal(err)
	}
	err := conn.Transact(t.Context(), []Request{newTable("c"), newTable("a"), deleteTable("none"), newTable("d")})
	var failure *TransactionError
	if !errors.As(err, &failure) || len(failure.Refused) != 2 || failure.Err != nil ||
		!errors.Is(failure.Refused[1], syscall.EEXIST) || !errors.Is(failure.Refused[2], syscall.ENOENT) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%+v", err)
	}
	if names := tableNames(t, conn); names != "a b" {
		t.Errorf("tables: %s", names)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conn.Transact(ended, []Request{deleteTable("a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := conn.Transact(t.Context(), nil); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
	if err := conn.Transact(t.Context(), []Request{deleteTable("a"), newTable("a"), deleteTable("a"), deleteTable("b")}); err != nil {
		t.Fatal(err)
	}
	if names := tableNames(t, conn); names != "" {
		t.Errorf("tables: %s", names)
	}
}

// TestALargeTransaction needs a larger buffer than sockets have at first.
func TestALargeTransaction(t *testing.T) {
	conn := dialTables(t)
	var requests []Request
	for i := range 1_500 {
		requests = append(requests, newTable(fmt.Sprintf("%s%d", strings.Repeat("long", 50), i)))
	}
	if err := conn.Transact(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	if err := conn.Transact(t.Context(), []Request{TablesRequest(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_UNSPEC)}); err != nil {
		t.Fatal(err)
	}
}

func TestATransactionThatIsTooLarge(t *testing.T) {
	conn := dialTables(t)
	s, ok := conn.requests.(*socket)
	if !ok {
		t.Fatalf("%T", conn.requests)
	}
	if err := s.enlarge(maxTransaction + 1); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("%v", err)
	}
	// In a user namespace the machine's limit holds.
	const says = "raise the sysctl net.core.wmem_max to 134217728 on the host"
	if err := s.enlarge(maxTransaction); !errors.Is(err, syscall.EMSGSIZE) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v", err)
	}
	if err := conn.Transact(t.Context(), []Request{newTable("a"), deleteTable("a")}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestWithoutTheRightATransactionIsRefusedAsAWhole(t *testing.T) {
	k := &fakeKernel{}
	first := true
	k.answer = func(seq uint32) []byte {
		if first {
			first = false
			return message(unix.NLMSG_ERROR, 0, seq, errnoBytes(syscall.EPERM)...)
		}
		return nil
	}
	err := (&Conn{requests: k}).Transact(t.Context(), []Request{newTable("a")})
	var failure *TransactionError
	if !errors.As(err, &failure) || len(failure.Refused) > 0 || !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
	// Only an answer says that it was done.
	err = (&Conn{requests: &silentKernel{}}).Transact(t.Context(), []Request{newTable("a")})
	if !errors.Is(err, errNoAnswer) {
		t.Errorf("%v", err)
	}
}

// silentKernel does not answer.
type silentKernel struct{ fakeKernel }

func (*silentKernel) receiveNow() ([]byte, error) { return nil, syscall.EAGAIN }

func errnoBytes(errno syscall.Errno) []byte {
	r := Request{Data: make([]byte, 4+unix.SizeofNlMsghdr)}
	r.PutUint32(0, uint32(-int32(errno)))
	return r.Data
}
