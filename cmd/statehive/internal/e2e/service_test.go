package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// unit is the text of the service that is shipped.
const unit = "../../../../dist/statehive.service"

// TestTheServiceCanApplyAllKinds runs the agent without systemd, but with what its unit leaves: as root with one
// capability, with a file system that is read-only but for /proc and one directory, and with few devices.
func TestTheServiceCanApplyAllKinds(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run the service")
	}
	w := testWorld(t, user{name: "self"})
	must(t, w.hold(t.Context(), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC}))
	must(t, w.run(t.Context(), "sh", "-euc", readOnlyMachine, "sh", w.dir).failure())
	w.wrapper = []string{
		"sh", "-c", `umask 077; exec "$@"`, "sh",
		"setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all," + bounds(t),
	}
	copyExample(t, w)
	must(t, w.setup(map[string]string{"more.yaml": fmt.Sprintf(moreKinds, w.path("managed"))}))

	must(t, w.start(t.Context()))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.allDone(ctx).failure() }))
	for _, command := range []string{
		"cat /proc/sys/kernel/shmmni | grep -x 4095",
		"ip -d link show tun7 | grep 'tun type'",
		"grep -x managed " + w.path("managed"),
		"! touch /usr/e2e-file",
		"! test -e /dev/kmsg",
	} {
		if err := w.run(t.Context(), "sh", "-c", command).failure(); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	checkConfined(t, w.statehive(t.Context(), "pid"), 1<<12) // CAP_NET_ADMIN
	must(t, w.stop())
}

// moreKinds are documents of what the example has not.
const moreKinds = `kind: file
path: %s
content: |
  managed
---
kind: link
name: tun7
type: tun
---
kind: sysctl
name: kernel.shmmni # of the IPC namespace
value: "4095"
`

// readOnlyMachine makes all but /proc and a directory read-only, and hides most devices.
const readOnlyMachine = `
mount --make-rprivate /
mount --bind "$1" "$1"
mkdir "$1/dev"
mount -t tmpfs devices "$1/dev"
mkdir "$1/dev/net"
for device in null zero random urandom net/tun; do
  touch "$1/dev/$device"
  mount --bind "/dev/$device" "$1/dev/$device"
done
mount --rbind "$1/dev" /dev
mount -o remount,bind,ro /sys
mount -o remount,bind,ro /
`

// bounds are the capabilities of the unit, as setpriv wants them.
func bounds(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	must(t, err)
	found := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("the unit does not bound capabilities")
	}
	return "+" + strings.ToLower(strings.Join(strings.Split(strings.ReplaceAll(found[1], "CAP_", ""), " "), ",+"))
}

// checkConfined looks at all threads of the process whose number a command has printed.
func checkConfined(t *testing.T, pid result, capabilities uint64) {
	t.Helper()
	must(t, pid.failure())
	has := fmt.Sprintf("%016x", capabilities)
	want := map[string]string{
		"CapInh": "0000000000000000", "CapPrm": has, "CapEff": has, "CapBnd": has, "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	}
	tasks := "/proc/" + strings.TrimSpace(pid.stdout) + "/task/"
	threads, err := os.ReadDir(tasks)
	must(t, err)
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + thread.Name() + "/status")
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		must(t, err)
		for name, value := range want {
			if !regexp.MustCompile(`(?m)^` + name + `:\s*` + value + `$`).Match(text) {
				t.Errorf("thread %s: expected %s %s in\n%s", thread.Name(), name, value, text)
			}
		}
	}
}

// TestAnAgentHasOnlyThePowerThatItNeeds looks at agents that nothing has confined but they themselves.
func TestAnAgentHasOnlyThePowerThatItNeeds(t *testing.T) {
	t.Parallel()
	for _, who := range users() {
		t.Run("sandbox of "+who.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld(t, who)
			must(t, w.start(t.Context()))
			checkConfined(t, w.statehive(t.Context(), "pid"), 1<<12|1<<1) // CAP_NET_ADMIN, CAP_DAC_OVERRIDE
			must(t, w.stop())
		})
	}
	t.Run("machine", func(t *testing.T) {
		t.Parallel()
		w := testWorld(t, user{name: "self"})
		must(t, w.isolate(t.Context()))
		must(t, w.start(t.Context()))
		// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETPCAP, NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_RESOURCE, LEASE
		checkConfined(t, w.statehive(t.Context(), "pid"), 1<<0|1<<1|1<<3|1<<4|1<<8|1<<12|1<<16|1<<17|1<<19|1<<21|1<<24|1<<28)
		must(t, w.stop())
	})
}
