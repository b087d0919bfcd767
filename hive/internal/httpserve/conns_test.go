package httpserve

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
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
