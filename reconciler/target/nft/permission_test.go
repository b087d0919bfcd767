package nft

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/statedb"
)

// unprivileged runs do on a thread without any capability: the kernel looks at that of
// the thread which sends. do must not end the test.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	dropped := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData // version 3 has two
		err := unix.Capset(&header, &none[0])
		if err == nil {
			do()
		}
		dropped <- err
	}()
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
}

func checkNotPermitted(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%s: %v, expected EPERM and what it takes", what, err)
	}
}

func checkObserveNotPermitted(t *testing.T, target *Target) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, err := range target.Observe(ctx) {
		checkNotPermitted(t, "Observe", err)
		return
	}
	t.Error("nothing is observed, as if nothing were there")
}

// The kernel does not even let nftables be read.
func TestWithoutTheRightToLookThereIsAnError(t *testing.T) {
	clean(t)
	target, row := newTarget(t), guarded()
	unprivileged(t, func() {
		checkObserveNotPermitted(t, target)
		_, err := target.Diff(t.Context(), txn(), row)
		checkNotPermitted(t, "Diff", err)
		_, err = target.Update(t.Context(), txn(), row)
		checkNotPermitted(t, "Update", err)
		checkNotPermitted(t, "Delete", target.Delete(t.Context(), txn(), row))
	})
	if exists(t, row.Key()) {
		t.Error("the table was made all the same")
	}
}

// A mirror that can never list must not be waited for.
func TestWithoutTheRightToLookNothingWaitsForTheMirror(t *testing.T) {
	target := newTarget(t)
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err == nil {
		_, err = target.NewMirror(db, table) // which nobody runs
	}
	if err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() { checkObserveNotPermitted(t, target) })
}
