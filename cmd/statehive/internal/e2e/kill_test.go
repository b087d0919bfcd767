package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seedVariable replays the choices of a failed test; the scheduler makes its own.
const seedVariable = "STATEHIVE_E2E_SEED"

const kills = 20

// others is what somebody else has in the network namespace, and what documents
// later take over a part of.
const others = `
ip link add ext0 type veth peer name ext1
ip link set ext0 up
ip link set ext1 up
ip addr add 10.99.0.1/24 dev ext0
ip addr add 2001:db8:99::1/64 dev ext0 nodad
ip route add 10.98.0.0/16 via 10.99.0.9 proto static
ip route add 10.97.0.0/16 via 10.99.0.9 table 100
ip -6 route add 2001:db8:98::/48 via 2001:db8:99::9 proto static
ip link add guest0 type bridge
ip addr add 10.77.0.1/24 dev guest0
ip link set guest0 up
echo 1 >/proc/sys/net/ipv4/conf/ext0/rp_filter
`

func TestAgentKilledAtAnyMomentLeavesNothingOfItsOwnAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	seed := chosenSeed(t)
	t.Logf("%s=%d makes the same choices", seedVariable, seed)
	choose := rand.New(rand.NewPCG(seed, 0))
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, w.inside(t.Context(), "sh", "-ec", others).failure())
	original := w.settledKernel(t)
	foreign := w.foreign(t)

	// The first run with a state directory holds the deletes of what it finds: it finds nothing.
	must(t, w.launch())
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.converged(ctx, nil) }))
	must(t, w.kill())

	for i := range kills {
		must(t, w.declare(choosePlan(choose)))
		must(t, w.launch("--full-interval", "1s"))
		pause(t, chooseDelay(choose))
		plan := choosePlan(choose)
		must(t, w.declare(plan))
		pause(t, chooseDelay(choose))
		if i%5 == 4 {
			must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.converged(ctx, plan) }))
		}
		must(t, w.kill())
		if diff := cmp.Diff(foreign, w.foreign(t)); diff != "" {
			t.Fatalf("kill %d: what is not ours: %s", i+1, diff)
		}
	}

	plan := choosePlan(choose)
	must(t, w.declare(plan))
	must(t, w.start(t.Context()))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.converged(ctx, plan) }))
	must(t, w.declare(nil))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.statehive(ctx, "approve", "documents").failure() }))
	must(t, until(t.Context(), patience, func(ctx context.Context) error { return w.converged(ctx, nil) }))
	if diff := cmp.Diff(original, w.settledKernel(t)); diff != "" {
		t.Errorf("after all documents were removed: %s", diff)
	}
	// A record of what went with its link, at a start before anybody asked, claims nothing,
	// and is dropped at the next start.
	must(t, w.stop())
	must(t, w.start(t.Context(), "--full-interval", "1s"))
	must(t, until(t.Context(), patience, func(context.Context) error {
		if records := w.records(t); len(records) > 0 {
			return fmt.Errorf("records are left over: %q", records)
		}
		return nil
	}))
	must(t, w.stop())
}

func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return seed
}

// chooseDelay is often short: most happens just after the start and a change.
func chooseDelay(choose *rand.Rand) time.Duration {
	return time.Duration(choose.IntN([]int{40, 100, 300}[choose.IntN(3)])) * time.Millisecond
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// wish is a document, and how to see in the kernel that it is fulfilled.
type wish struct{ kind, document, look, sees string }

// choosePlan returns wishes that can all be fulfilled.
func choosePlan(choose *rand.Rand) []wish {
	var plan []wish
	maybe := func(wishes ...wish) bool {
		ok := choose.IntN(3) > 0
		if ok {
			plan = append(plan, wishes...)
		}
		return ok
	}
	number := func(numbers ...int) int { return numbers[choose.IntN(len(numbers))] }

	maybe(sysctlWish("net.ipv4.ip_forward", 1))
	maybe(sysctlWish("net.ipv6.conf.all.forwarding", 1))
	maybe(sysctlWish("net.ipv4.conf.all.rp_filter", number(1, 2)))
	maybe(sysctlWish("net.ipv4.conf.ext0.rp_filter", number(0, 1, 2)))
	maybe(linkWish("ext0", "", number(1400, 1450)))
	maybe(addressWish("ext0", "10.99.0.5/24"))
	maybe(addressWish("ext0", "10.99.0.1/24")) // somebody else's
	if maybe(linkWish("a0", "type: veth\npeer: a1", number(1400, 1450)), linkWish("a1", "", 1500)) {
		maybe(sysctlWish("net.ipv4.conf.a0.rp_filter", number(1, 2)))
		if maybe(addressWish("a0", "192.0.2.2/24")) {
			maybe(routeWish("198.51.100.0/24", "192.0.2."+strconv.Itoa(number(1, 3)), "main"))
			maybe(routeWish("203.0.113.0/24", "192.0.2."+strconv.Itoa(number(1, 3)), "100"))
			maybe(routeWish("default", "192.0.2.1", "main"))
		}
		if maybe(addressWish("a0", "2001:db8::2/64")) {
			maybe(routeWish("2001:db8:77::/48", "2001:db8::"+strconv.Itoa(number(1, 3)), "main"))
		}
	}
	if maybe(linkWish("br0", "type: bridge", number(1400, 1450))) {
		maybe(addressWish("br0", "10.20.0.1/24"))
	}
	if len(plan) == 0 { // an empty directory of documents is not believed
		return choosePlan(choose)
	}
	return plan
}

func sysctlWish(name string, value int) wish {
	return wish{
		"sysctl", fmt.Sprintf("name: %s\nvalue: \"%d\"", name, value),
		"sysctl " + name, fmt.Sprintf(`(?m)^%s = %d$`, name, value),
	}
}

func linkWish(name, more string, mtu int) wish {
	return wish{
		"link", fmt.Sprintf("name: %s\nmtu: %d\n%s", name, mtu, more),
		"ip link show " + name, fmt.Sprintf(`: %s[:@].*[<,]UP[,>].* mtu %d `, name, mtu),
	}
}

func addressWish(device, address string) wish {
	return wish{
		"address", fmt.Sprintf("device: %s\naddress: %s", device, address),
		"ip addr show " + device, `inet6? ` + regexp.QuoteMeta(address) + " ",
	}
}

func routeWish(destination, gateway, table string) wish {
	family := "-4"
	if strings.Contains(gateway, ":") {
		family = "-6"
	}
	return wish{
		"route", fmt.Sprintf("destination: %s\ngateway: %s\ntable: %q", destination, gateway, table),
		"ip " + family + " route show table " + table, fmt.Sprintf(`(?m)^%s via %s .*proto 79 `, destination, gateway),
	}
}

// declare writes a file for each kind, or removes it when there is nothing in it.
func (w *world) declare(plan []wish) error {
	files := map[string]string{"sysctl.yaml": "", "link.yaml": "", "address.yaml": "", "route.yaml": ""}
	for _, wish := range plan {
		files[wish.kind+".yaml"] += "---\nkind: " + wish.kind + "\n" + wish.document + "\n"
	}
	for name, text := range files {
		err := os.Remove(w.path("documents/" + name))
		if text != "" {
			err = w.setup(map[string]string{name: text})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// converged fails unless a plan, and nothing else, is fulfilled.
func (w *world) converged(ctx context.Context, plan []wish) error {
	rows := map[string]counts{"sysctls": {}, "links": {}, "addresses": {}, "routes": {}}
	tables := map[string]string{"sysctl": "sysctls", "link": "links", "address": "addresses", "route": "routes"}
	for _, wish := range plan {
		c := rows[tables[wish.kind]]
		rows[tables[wish.kind]] = counts{c.Rows + 1, c.Done + 1, 0}
	}
	status := w.allDone(ctx)
	if diff := differ(rows, countsIn(status.stdout)); diff != "" || status.err != nil {
		return fmt.Errorf("%w: status: %s", errors.Join(status.failure(), errors.New("not converged")), diff)
	}
	for _, wish := range plan {
		r := w.inside(ctx, strings.Fields(wish.look)...)
		if r.err != nil || !regexp.MustCompile(wish.sees).MatchString(r.stdout) {
			return fmt.Errorf("%s: %w; expected %s in\n%s", wish.look, errors.Join(r.err, errors.New("not as declared")), wish.sees, r)
		}
	}
	return w.nothingMore(ctx, plan)
}

// nothingMore fails if there are routes or links of ours beyond the plan.
func (w *world) nothingMore(ctx context.Context, plan []wish) error {
	routes, links := 0, 0
	for _, wish := range plan {
		if wish.kind == "route" {
			routes++
		}
		if strings.Contains(wish.document, "type:") {
			links++
		}
	}
	four := w.inside(ctx, "ip", "-4", "route", "show", "table", "all", "proto", "79")
	six := w.inside(ctx, "ip", "-6", "route", "show", "table", "all", "proto", "79")
	ours := w.inside(ctx, "ip", "link")
	if err := errors.Join(four.failure(), six.failure(), ours.failure()); err != nil {
		return err
	}
	if n := strings.Count(four.stdout+six.stdout, "\n"); n != routes {
		return fmt.Errorf("%d routes are ours, expected %d:\n%s%s", n, routes, four, six)
	}
	if n := strings.Count(ours.stdout, "alias statehive"); n != links {
		return fmt.Errorf("%d links are ours, expected %d:\n%s", n, links, ours)
	}
	return nil
}

// foreign is what others have, and no document is about.
func (w *world) foreign(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, command := range []string{
		"ip -4 route show proto static", "ip -6 route show proto static", "ip -4 route show table 100 proto boot",
		"ip -4 -o addr show dev guest0", "ip -4 -o addr show dev ext0 to 10.99.0.1", "ip -6 -o addr show dev ext0 to 2001:db8:99::1",
	} {
		r := w.inside(t.Context(), strings.Fields(command)...)
		must(t, r.failure())
		if r.stdout == "" {
			t.Errorf("%s: it is gone", command)
		}
		all = append(all, r.stdout)
	}
	return all
}

// settledKernel returns all there is in the network namespace, once the kernel
// has made up its mind.
func (w *world) settledKernel(t *testing.T) outside {
	t.Helper()
	must(t, until(t.Context(), patience, func(ctx context.Context) error {
		r := w.inside(ctx, "ip", "addr")
		if r.err == nil && strings.Contains(r.stdout, "tentative") {
			r.err = errors.New("addresses are tentative")
		}
		return r.failure()
	}))
	return w.kernel(t, "^net[.]")
}

// kernel returns what there is in the network namespace now, of sysctls those whose names
// match a regular expression.
func (w *world) kernel(t *testing.T, names string) outside {
	t.Helper()
	o := outside{}
	must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
		values, err := w.sysctls(ctx, names)
		for name, value := range values {
			o["sysctl "+name] = value
		}
		return err
	}))
	for _, command := range []string{
		"ip -j -d addr", "ip -j -4 rule", "ip -j -6 rule",
		"ip -j -d -4 route show table all", "ip -j -d -6 route show table all",
		"ip -j -4 neigh show nud permanent", "ip -j -6 neigh show nud permanent",
	} {
		var r result
		must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
			r = w.inside(ctx, strings.Fields(command)...)
			return r.failure()
		}))
		for _, object := range objects(t, []byte(r.stdout), "valid_life_time", "preferred_life_time", "hello_timer", "gc_timer") {
			o[command+": "+object] = ""
		}
	}
	return o
}

// sysctls returns those whose names match a regular expression, with their values.
func (w *world) sysctls(ctx context.Context, names string) (map[string]string, error) {
	r := w.inside(ctx, "sysctl", "-a", "--pattern", names)
	var exit *exec.ExitError
	if r.err != nil && (!errors.As(r.err, &exit) || !exit.Exited()) { // otherwise some cannot be read
		return nil, r.err
	}
	all := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		all[name] += value // some have several lines
	}
	return all, nil
}

// records are the files of the state directory, but for its lock.
func (w *world) records(t *testing.T) []string {
	t.Helper()
	var records []string
	must(t, filepath.WalkDir(w.state(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "started" || entry.Name() == "mark") { // about no object
			return filepath.SkipDir
		}
		if err == nil && !entry.IsDir() && entry.Name() != "lock" {
			records = append(records, path)
		}
		return err
	}))
	return records
}
