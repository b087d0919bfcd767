package httpserve

import (
	"errors"
	"io"
	"net"
	"os"
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
	answered := func() *client { return &client{network: true, waits: long, since: now} }
	sending := func(since time.Time) *client {
		c := answered()
		c.sending.Store(since.UnixNano())
		return c
	}
	for name, c := range map[string]struct {
		one  *client
		goes bool
	}{
		"is being answered":      {answered(), false},
		"has just come":          {&client{network: true, waits: short}, false},
		"is silent":              {&client{network: true, waits: long}, true},
		"has just got an answer": {&client{network: true, waits: short, served: true}, false},
		"is silent, and local":   {&client{waits: short}, true},
		"reads":                  {sending(short), false},
		"does not read":          {sending(long), true},
	} {
		open, next := &conns{open: []*client{answered(), c.one, answered()}}, &client{network: true, waits: now}
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
		c := room(1)
		young, next := c.newClient(remote{silent}), &client{all: c, network: true}
		c.add(young)
		began := time.Now()
		if c.add(next); len(c.open) != 1 || c.open[0] != next {
			t.Error("it was not accepted")
		}
		if waited := time.Since(began); waited > youth {
			t.Errorf("it has waited for %v", waited)
		}
	})
}

// A connection that has waited for room is as young as one that has not: its request has not been read either.
func TestAConnectionThatHasWaitedDoesNotGiveWayToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := room(1)
		busy, waiting, next := &client{all: c, network: true, since: time.Now()}, &client{all: c, network: true}, &client{all: c, network: true}
		c.open = []*client{busy}
		time.AfterFunc(maxWait/2, func() { c.remove(busy) })
		c.add(waiting)
		if got := c.victim(next); got != next {
			t.Errorf("of %v the one that has just been added goes", c.open)
		}
	})
}

// room has room for so many connections.
func room(of int) *conns { return &conns{max: of, freed: make(chan struct{}, 1)} }

// remote is a connection of a network.
type remote struct{ net.Conn }

func (remote) LocalAddr() net.Addr { return &net.TCPAddr{} }

// connect returns the ends of a TCP connection, that of the server added to a set. The client receives little at once.
func connect(t *testing.T, all *conns) (here *net.TCPConn, there *client) {
	t.Helper()
	listening, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close() }()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) }), err)
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", listening.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	accepted, err := listener{listening, all}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	there = accepted.(*client)
	t.Cleanup(func() { _ = there.end() })
	all.add(there)
	return conn.(*net.TCPConn), there
}

// What the kernel holds for a client that has given way is not counted as a connection, and the client may never read it.
func TestTheKernelKeepsNothingForClientsThatGiveWay(t *testing.T) {
	for name, begin := range map[string]func(*conns, *client){
		"has sent nothing":        func(*conns, *client) {},
		"does not read":           (*conns).answerTooMuch,
		"waits after its request": (*conns).answered,
		"does not read the end": func(c *conns, one *client) {
			_ = c.begin(one, Limits{}, true) // limits of users are not its own
			_, _ = one.Write(make([]byte, 8<<10))
			_ = one.Close()
			for !one.unreceived() {
				runtime.Gosched()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := room(1)
			here, gone := connect(t, all)
			begin(all, gone)
			all.mu.Lock()
			gone.waits = gone.waits.Add(-time.Minute)
			all.mu.Unlock()
			silent, other := net.Pipe()
			defer func() { _ = other.Close() }()
			next := all.newClient(silent)
			if all.add(next); len(all.open) != 1 || all.open[0] != next {
				t.Fatal("it has not given way")
			}
			if _, err := io.Copy(io.Discard, here); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("its connection ends with %v", err)
			}
		})
	}
}

// A client that reads slowly gets all of its answer, and is counted as a connection until then.
func TestAConnectionCountsUntilItsAnswerIsReceived(t *testing.T) {
	all := room(1)
	here, there := connect(t, all)
	if limit := option(t, there.Conn, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); limit != 0 {
		t.Errorf("the kernel drops what a client that reads slowly has not read after %d ms", limit)
	}
	sent, err := there.Write(make([]byte, 8<<10))
	if err == nil {
		err = there.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for !there.unreceived() {
		runtime.Gosched()
	}
	if all.count() != 1 {
		t.Fatal("it is not counted although its client has not read")
	}
	if got, err := io.Copy(io.Discard, here); err != nil || got != int64(sent) {
		t.Errorf("the client got %d bytes of %d, %v", got, sent, err)
	}
	for all.count() != 0 {
		<-all.freed
	}
}

// A client must not take a part for the whole.
func TestAConnectionWhoseAnswerFailsIsReset(t *testing.T) {
	all := room(1)
	here, there := connect(t, all)
	err := there.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	for err == nil {
		_, err = there.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := there.Close(); err != nil || all.count() != 0 {
		t.Errorf("%d connections are left, %v", all.count(), err)
	}
	if _, err := io.Copy(io.Discard, here); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v", err)
	}
}

func TestTheEndWaitsUntilAnswersAreReceivedButNotForEver(t *testing.T) {
	for name, reads := range map[string]bool{"reads": true, "does not read": false} {
		all := room(1)
		here, there := connect(t, all)
		_, err := there.Write(make([]byte, 8<<10))
		if err == nil {
			err = there.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		began, patience := time.Now(), 200*time.Millisecond
		if reads {
			patience = time.Minute
			go func() { _, _ = io.Copy(io.Discard, here) }()
		}
		all.close(began.Add(patience))
		if took := time.Since(began); all.count() != 0 || !reads && took < patience || took > 30*time.Second {
			t.Errorf("a client that %s: after %v there are %d connections", name, took, all.count())
		}
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
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }), err); err != nil {
		t.Fatal(err)
	}
	return value
}
