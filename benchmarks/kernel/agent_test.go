package main

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
)

const someMetrics = `
# HELP statehive_reconciler_full_total Full passes that have ended.
statehive_reconciler_full_total{module_id="route",reconciler="routes"} 1
statehive_reconciler_full_total{module_id="link",reconciler="links"} 2
statehive_reconciler_queue_depth{class="change",module_id="route",reconciler="routes"} 1200
statehive_reconciler_queue_depth{class="retry",module_id="route",reconciler="routes"} 1e+03
statehive_reconciler_active_workers{module_id="route",reconciler="routes"} 0
go_goroutines 12
`

func TestMetricsOfReconcilersAreRead(t *testing.T) {
	g, err := parseMetrics(strings.NewReader(someMetrics))
	if err != nil {
		t.Fatal(err)
	}
	if g["queue_depth"]["routes"] != 2200 || g["full_total"]["links"] != 2 || len(g) != 3 || g.sum("full_total") != 3 {
		t.Errorf("got %v", g)
	}
}

func TestAgentIsIdleAfterFullPassesWithEmptyQueues(t *testing.T) {
	for name, test := range map[string]struct {
		old, text string
		want      bool
	}{
		"empty queues":   {"1200", "0", false},
		"full queues":    {"1e+03", "0", false},
		"no full pass":   {`"links"} 2`, `"links"} 0`, false},
		"no metrics yet": {someMetrics, "", false},
	} {
		g, err := parseMetrics(strings.NewReader(strings.Replace(someMetrics, test.old, test.text, 1)))
		if err != nil || g.idle() != test.want {
			t.Errorf("%s: %v, %v", name, g.idle(), err)
		}
	}
	empty := strings.NewReplacer("1200", "0", "1e+03", "0").Replace(someMetrics)
	if g, err := parseMetrics(strings.NewReader(empty)); err != nil || !g.idle() {
		t.Errorf("nothing to do: %v, %v", g, err)
	}
}

func TestRowsThatAreNotAllDoneAreNamed(t *testing.T) {
	status := func(rows, done, deleting int) []reconcilercell.Status {
		return []reconcilercell.Status{{Summary: reconciler.Summary{Name: "routes", Rows: rows, Done: done, Deleting: deleting}}}
	}
	for _, test := range []struct {
		is   []reconcilercell.Status
		want bool
	}{{status(2, 2, 0), true}, {status(1, 1, 0), false}, {status(2, 1, 0), false}, {status(2, 2, 1), false}} {
		if err := unlike(test.is, map[string]int{"routes": 2}); (err == nil) != test.want {
			t.Errorf("%+v: %v", test.is, err)
		}
	}
}

func TestUsageIsReadFromProc(t *testing.T) {
	stat := "12 (state hive) S 1 12 12 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 8 0 100 1000 200"
	got, err := parseUsage(stat, "Name:\tstatehive\nVmRSS:\t   12000 kB\n")
	if err != nil || got != (usage{2 * time.Second, 12.288}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range [][2]string{{"12 (x) S", "VmRSS: 1 kB"}, {stat, "Name: x"}} {
		if _, err := parseUsage(bad[0], bad[1]); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestRouteNotesAreRead(t *testing.T) {
	data := make([]byte, unix.SizeofRtMsg)
	data[0], data[1] = unix.AF_INET, 24
	for kind, addr := range map[uint16][]byte{unix.RTA_DST: {11, 0, 1, 0}, unix.RTA_GATEWAY: {10, 254, 0, 2}} {
		data = binary.NativeEndian.AppendUint16(data, unix.SizeofRtAttr+4)
		data = binary.NativeEndian.AppendUint16(data, kind)
		data = append(data, addr...)
	}
	message := func(kind uint16, data []byte) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: data}
	}
	want := routeNote{gone: true, destination: netip.MustParsePrefix("11.0.1.0/24"), gateway: netip.MustParseAddr("10.254.0.2")}
	if got, ok := parseRouteNote(message(unix.RTM_DELROUTE, data)); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	if got, ok := parseRouteNote(message(unix.RTM_NEWROUTE, data[:unix.SizeofRtMsg])); !ok || got.gone || got.destination.Bits() != 24 {
		t.Errorf("without attributes: %+v, %t", got, ok)
	}
	for _, other := range []syscall.NetlinkMessage{message(unix.RTM_NEWLINK, data), message(unix.RTM_NEWROUTE, data[:3])} {
		if got, ok := parseRouteNote(other); ok {
			t.Errorf("%v is no route, got %+v", other.Header.Type, got)
		}
	}
	// An attribute that is longer than the message ends it.
	if _, ok := parseRouteNote(message(unix.RTM_NEWROUTE, data[:len(data)-1])); !ok {
		t.Error("a message that is cut off was not read as far as it goes")
	}
}
