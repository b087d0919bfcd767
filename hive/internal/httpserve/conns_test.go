package httpserve

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestConnectionsLeaveRoomForOtherDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 1, 100: 25, 1024: 256, 2000: 500, 1 << 20: 500, ^uint64(0): 500} {
		if got := connsFor(descriptors); got != want {
			t.Errorf("%d of %d descriptors, want %d", got, descriptors, want)
		}
	}
}

// In a flood of requests of a network, a prompt client does not give way in the moment before its request arrives, nor in the one in
// which its answer is written. A new connection waits instead.
func TestAPromptClientDoesNotGiveWay(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-time.Second), now.Add(time.Hour) // that is still to come however slow the test is
	answered := func() *client { return &client{network: true, came: long, since: now} }
	sending := func(since time.Time) *client {
		c := answered()
		c.sending.Store(since.UnixNano())
		return c
	}
	for name, c := range map[string]struct {
		one  *client
		goes bool
	}{
		"is being answered":    {answered(), false},
		"has just come":        {&client{network: true, came: short}, false},
		"is silent":            {&client{network: true, came: long}, true},
		"is silent, and local": {&client{came: short}, true},
		"reads":                {sending(short), false},
		"does not read":        {sending(long), true},
	} {
		open, next := &conns{open: []*client{answered(), c.one, answered()}}, &client{network: true, came: now}
		want := next
		if c.goes {
			want = c.one
		}
		if got := open.victim(next); got != want {
			t.Errorf("a client that %s goes: %t", name, got == c.one)
		}
	}
}

// As many as there may be have just come, and none of them says anything.
func TestAConnectionDoesNotWaitLongForYoungOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, other := net.Pipe()
		defer func() { _ = other.Close() }()
		young := &client{Conn: silent, network: true, came: time.Now()}
		c, next := &conns{max: 1, open: []*client{young}, freed: make(chan struct{}, 1)}, &client{network: true, came: time.Now()}
		began := time.Now()
		if c.add(next); len(c.open) != 1 || c.open[0] != next {
			t.Error("it was not accepted")
		}
		if waited := time.Since(began); waited > youth {
			t.Errorf("it has waited for %v", waited)
		}
	})
}

// What the kernel holds for a client that has given way is not counted as a connection, and the client may never read it.
func TestTheKernelKeepsNothingForClientsThatGiveWay(t *testing.T) {
	listening, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close() }()
	for name, c := range map[string]struct {
		begin func(*conns, *client)
		want  error
	}{
		"has sent nothing":    {func(*conns, *client) {}, syscall.ECONNRESET},
		"does not read":       {(*conns).answerTooMuch, syscall.ECONNRESET},
		"waits after reading": {(*conns).end, nil},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listening.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			accepted, err := listener{listening}.Accept()
			if err != nil {
				t.Fatal(err)
			}
			gone := accepted.(*client)
			gone.came = gone.came.Add(-time.Minute)
			if got, want := option(t, gone.Conn, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT), int(unreadTimeout.Milliseconds()); got != want {
				t.Errorf("the kernel keeps unread data for %d ms, want %d", got, want)
			}
			if got := option(t, gone.Conn, unix.SOL_SOCKET, unix.SO_SNDBUF); got > 2*unreadBuffer {
				t.Errorf("the kernel keeps %d bytes, want %d", got, 2*unreadBuffer)
			}
			if got := option(t, gone.Conn, unix.SOL_SOCKET, unix.SO_KEEPALIVE); got != 0 {
				t.Error("idle clients are probed, and have to answer the first time")
			}
			c1 := &conns{max: 1, freed: make(chan struct{}, 1), open: []*client{gone}}
			c.begin(c1, gone)
			silent, other := net.Pipe()
			defer func() { _ = other.Close() }()
			next := &client{Conn: silent}
			if c1.add(next); len(c1.open) != 1 || c1.open[0] != next {
				t.Fatal("it has not given way")
			}
			if _, err := io.Copy(io.Discard, conn); !errors.Is(err, c.want) {
				t.Errorf("its connection ends with %v, want %v", err, c.want)
			}
		})
	}
}

// answerTooMuch begins an answer that fills the buffers of the kernel.
func (c *conns) answerTooMuch(one *client) {
	_ = c.begin(one, Limits{}, true) // limits of users are not its own
	go func() {
		for b := make([]byte, 1<<20); ; {
			if _, err := one.Write(b); err != nil {
				return // it has given way
			}
		}
	}()
	for !one.unreceived() {
		runtime.Gosched()
	}
}

func option(t *testing.T, conn net.Conn, level, name int) (value int) {
	t.Helper()
	raw, err := rawConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }), err); err != nil {
		t.Fatal(err)
	}
	return value
}
