package agent

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnAgentWithoutPowerSaysSoAtTheStart(t *testing.T) {
	var log bytes.Buffer
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which has no power any more, ends
		none := [2]unix.CapUserData{}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		err := unix.Capset(&header, &none[0])
		warnIfPowerless(slog.New(slog.NewTextHandler(&log, nil)))
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "CAP_NET_ADMIN is missing. Run the agent as root, or try it with --sandbox") {
		t.Errorf("log: %s", &log)
	}
}
