package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// many is how much TestAgentKilledAmongManyObjects... does: see make kill-kernel.
var many = struct{ kills, routes, addresses, links *int }{
	flag.Int("kills", 5, "how often the agent is killed among many objects"),
	flag.Int("kill-routes", 100, "how many routes there are then at most"),
	flag.Int("kill-addresses", 20, "how many addresses"),
	flag.Int("kill-links", 10, "how many links"),
}

// seriesOfKills is how many kills there are before the agent may do all that the
// documents say.
const seriesOfKills = 5

// manyPatience is how long that may take.
func manyPatience() time.Duration {
	return time.Minute + time.Duration(*many.routes)*100*time.Millisecond
}

// manyForeign is what somebody else has besides [others]: routes to where ours go,
// too, which are worth less.
const manyForeign = others + `
for i in $(seq 0 19); do ip route add 10.64.0.$i/32 via 10.99.0.9 metric 500 proto static; done
`

// noLimit lets through deletes, however many they are.
var noLimit = []string{"--change-limit-percent", "100", "--full-interval", "1s"}

func TestAgentKilledAmongManyObjectsConvergesAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	seed := chosenSeed(t)
	t.Logf("%s=%d makes the same choices", seedVariable, seed)
	choose := rand.New(rand.NewPCG(seed, 0))
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, w.inside(t.Context(), "sh", "-ec", manyForeign).failure())
	must(t, w.setup(map[string]string{"kept.yaml": harmless}))
	original, foreign := w.settledKernel(t), w.foreign(t)

	for i := range *many.kills {
		must(t, w.declareMany(chooseMany(choose)))
		must(t, w.launch(noLimit...))
		pause(t, chooseLongDelay(choose))
		now := chooseMany(choose)
		must(t, w.declareMany(now))
		pause(t, chooseLongDelay(choose))
		if i%seriesOfKills == seriesOfKills-1 {
			w.convergesTo(t, now)
		}
		must(t, w.kill())
		if diff := cmp.Diff(foreign, w.foreign(t)); diff != "" {
			t.Fatalf("kill %d: what is not ours: %s", i+1, diff)
		}
	}

	last := chooseMany(choose)
	for len(last.Routes) == 0 {
		last = chooseMany(choose)
	}
	must(t, w.declareMany(last))
	must(t, w.start(t.Context(), noLimit...))
	// What is removed does not go with the links alone.
	for _, rest := range []objectSet{last, last.without("routes"), last.without("addresses"), {}} {
		must(t, w.declareMany(rest))
		w.convergesTo(t, rest)
	}
	must(t, w.stop())
	if diff := cmp.Diff(original, w.settledKernel(t)); diff != "" {
		t.Errorf("after the documents were removed: %s", diff)
	}
	records := slices.DeleteFunc(w.records(t), func(path string) bool { // of the document that stays
		return strings.Contains(path, "/sysctl/") || strings.Contains(path, "/documents/")
	})
	if len(records) > 0 {
		t.Errorf("records are left over: %q", records)
	}
	t.Logf("%d kills among up to %d routes, %d addresses and %d links", *many.kills, *many.routes, *many.addresses, *many.links)
}

// chooseLongDelay is often short; the longest is enough for a part of many objects.
func chooseLongDelay(choose *rand.Rand) time.Duration {
	if choose.IntN(4) > 0 {
		return chooseDelay(choose)
	}
	return time.Duration(choose.IntN(300+*many.routes/2)) * time.Millisecond
}

// objectSet is what documents declare, or what the kernel has: links by name with
// their MTU, routes by destination with their gateway, and addresses with devices.
type objectSet struct {
	Links     map[string]int
	Addresses map[string]bool
	Routes    map[string]string
	pairs     map[string]string // the other ends of links that are declared to have one
}

// cableOf holds the gateways of all routes.
const cableOf, cableEnd = "cable0", "cable1"

// chooseMany returns a part of all objects, whose documents can all be fulfilled.
func chooseMany(choose *rand.Rand) objectSet {
	o := objectSet{Links: map[string]int{}, Addresses: map[string]bool{}, Routes: map[string]string{}, pairs: map[string]string{}}
	most := choose.IntN(4) // the part of the objects that is there, in thirds
	there := func() bool { return choose.IntN(3) < most }
	for i := 0; i+1 < *many.links-2; i += 2 { // two are the cable
		if !there() {
			continue
		}
		mtu := 1400 + 50*choose.IntN(2)
		first, second := fmt.Sprintf("k%d", i), fmt.Sprintf("k%d", i+1)
		o.Links[first], o.Links[second] = mtu, mtu
		if i%4 == 0 {
			o.pairs[first] = second
		}
	}
	devices := slices.Sorted(maps.Keys(o.Links))
	for i := range *many.addresses {
		if len(devices) > 0 && there() {
			o.Addresses[devices[i%len(devices)]+" "+addressNumber(i)] = true
		}
	}
	if choose.IntN(4) == 0 {
		return o // without a cable and routes
	}
	o.Links[cableOf], o.Links[cableEnd], o.pairs[cableOf] = 1500, 1500, cableEnd
	o.Addresses[cableOf+" 10.254.0.1/24"], o.Addresses[cableOf+" 2001:db8:254::1/64"] = true, true
	for i := range *many.routes {
		if there() {
			o.Routes[destinationNumber(i)] = gatewayNumber(i, choose.IntN(3))
		}
	}
	return o
}

// without returns the objects without routes, or without addresses and routes.
func (o objectSet) without(kind string) objectSet {
	o.Routes = nil
	if kind == "addresses" {
		o.Addresses = nil
	}
	return o
}

func addressNumber(i int) string {
	if i%2 == 0 {
		return fmt.Sprintf("10.128.%d.%d/32", i>>8, i&255)
	}
	return fmt.Sprintf("2001:db8:128::%x/128", i)
}

// destinationNumber returns a network. Every fifth is of IPv6.
func destinationNumber(i int) string {
	switch i % 5 {
	case 0:
		return fmt.Sprintf("2001:db8:64:%x::/64", i+1)
	case 1:
		return fmt.Sprintf("11.%d.%d.0/24", i>>8, i&255)
	}
	return fmt.Sprintf("10.64.%d.%d/32", i>>8, i&255)
}

func gatewayNumber(i, version int) string {
	if i%5 == 0 {
		return fmt.Sprintf("2001:db8:254::%x", 2+version)
	}
	return fmt.Sprintf("10.254.0.%d", 2+version)
}

// declareMany writes a file for each kind. Those of which there is nothing are left
// with what is harmless.
func (w *world) declareMany(o objectSet) error {
	var links, addresses, routes strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.Links)) {
		fmt.Fprintf(&links, "---\nkind: link\nname: %s\nmtu: %d\n", name, o.Links[name])
		switch {
		case o.pairs[name] != "":
			fmt.Fprintf(&links, "type: veth\npeer: %s\n", o.pairs[name])
		case !o.isSecondEnd(name):
			fmt.Fprint(&links, "type: bridge\n")
		}
	}
	for key := range o.Addresses {
		device, address, _ := strings.Cut(key, " ")
		fmt.Fprintf(&addresses, "---\nkind: address\ndevice: %s\naddress: %s\n", device, address)
	}
	for destination, gateway := range o.Routes {
		fmt.Fprintf(&routes, "---\nkind: route\ndestination: %s\ngateway: %s\n", destination, gateway)
	}
	return w.setup(map[string]string{
		"links.yaml":     "# links\n" + links.String(),
		"addresses.yaml": "# addresses\n" + addresses.String(),
		"routes.yaml":    "# routes\n" + routes.String(),
	})
}

func (o objectSet) isSecondEnd(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(o.pairs)), name)
}

// convergesTo waits until the documents of these objects, and no others, are
// fulfilled: in the status and in the kernel.
func (w *world) convergesTo(t *testing.T, want objectSet) {
	t.Helper()
	rows := map[string]counts{
		"links":     {len(want.Links), len(want.Links), 0},
		"addresses": {len(want.Addresses), len(want.Addresses), 0},
		"routes":    {len(want.Routes), len(want.Routes), 0},
		"sysctls":   {1, 1, 0},
	}
	must(t, until(t.Context(), manyPatience(), func(ctx context.Context) error {
		status := w.allDone(ctx)
		if diff := differ(rows, countsIn(status.stdout)); diff != "" || status.err != nil {
			return fmt.Errorf("%w: status: %s", errors.Join(status.failure(), errors.New("not converged")), diff)
		}
		is, err := w.ownObjects(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, is, cmpopts.IgnoreUnexported(objectSet{}), cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("the kernel: %s", diff)
		}
		return nil
	}))
}

// ownObjects returns what the agent, and no one else, has in the kernel.
func (w *world) ownObjects(ctx context.Context) (objectSet, error) {
	o := objectSet{Links: map[string]int{}, Addresses: map[string]bool{}, Routes: map[string]string{}}
	var devices []struct {
		Name      string `json:"ifname"`
		MTU       int    `json:"mtu"`
		Addresses []struct {
			Local  string `json:"local"`
			Length int    `json:"prefixlen"`
			Scope  string `json:"scope"`
		} `json:"addr_info"`
	}
	if err := w.listed(ctx, &devices, "addr"); err != nil {
		return o, err
	}
	for _, d := range devices {
		if !strings.HasPrefix(d.Name, "k") && d.Name != cableOf && d.Name != cableEnd {
			continue
		}
		o.Links[d.Name] = d.MTU
		for _, a := range d.Addresses {
			if a.Scope != "link" {
				o.Addresses[fmt.Sprintf("%s %s/%d", d.Name, a.Local, a.Length)] = true
			}
		}
	}
	for _, family := range []string{"-4", "-6"} {
		if err := w.addOwnRoutes(ctx, family, o.Routes); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (w *world) addOwnRoutes(ctx context.Context, family string, all map[string]string) error {
	var routes []struct {
		Destination string `json:"dst"`
		Gateway     string `json:"gateway"`
	}
	if err := w.listed(ctx, &routes, family, "route", "show", "table", "all", "proto", "79"); err != nil {
		return err
	}
	for _, r := range routes {
		if family == "-4" && !strings.Contains(r.Destination, "/") {
			r.Destination += "/32"
		}
		all[r.Destination] = r.Gateway
	}
	return nil
}

// listed decodes what ip lists.
func (w *world) listed(ctx context.Context, into any, args ...string) error {
	r := w.inside(ctx, append([]string{"ip", "-j"}, args...)...)
	if r.err != nil {
		return r.failure()
	}
	if strings.TrimSpace(r.stdout) == "" {
		return nil // of no routes
	}
	return json.Unmarshal([]byte(r.stdout), into)
}
