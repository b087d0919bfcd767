package route

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb/immutable"
)

// Nexthop is one of several next hops of a route.
type Nexthop struct {
	Gateway netip.Addr `yaml:"gateway" json:"gateway,omitzero" doc:"Address of the router."`
	Device  string     `yaml:"device" json:"device,omitempty" doc:"Name of the link; if it is left out, the one that leads to the gateway."`
	// Weight is the share of packets that take this next hop, relative to the others: 1 to
	// 256. 0 means 1.
	Weight uint16 `yaml:"weight" json:"weight,omitempty" doc:"Share of the packets, relative to the other next hops, from 1 to 256; 1 if it is left out."`
}

// Limits of the kernel and of the size of a message.
const (
	maxWeight   = 256
	maxNexthops = 256
)

// withWeights returns the next hops with missing weights filled in.
func withWeights(hops immutable.List[Nexthop]) immutable.List[Nexthop] {
	all := hops.Slice()
	for i := range all {
		all[i].Weight = max(all[i].Weight, 1)
	}
	return immutable.ListOf(all...)
}

// checkNexthops returns an error of type *reconciler.FieldError.
func (r Route) checkNexthops() error {
	known := map[Nexthop]int{}
	for i, hop := range r.Nexthops.All() {
		field, err := r.checkNexthop(hop)
		way := Nexthop{Gateway: hop.Gateway, Device: hop.Device}
		first, again := known[way]
		switch {
		case err != nil:
			return &reconciler.FieldError{Field: fmt.Sprintf("nexthops[%d].%s", i, field), Err: err}
		case i >= maxNexthops:
			return &reconciler.FieldError{Field: "nexthops", Err: fmt.Errorf("there are more than %d", maxNexthops)}
		case again:
			return &reconciler.FieldError{
				Field: fmt.Sprintf("nexthops[%d]", i), Err: fmt.Errorf("it is the same as nexthops[%d], expected one next hop with a weight", first),
			}
		}
		known[way] = i
	}
	return nil
}

func (r Route) checkNexthop(hop Nexthop) (field string, err error) {
	if hop.Weight > maxWeight {
		return "weight", fmt.Errorf("%d is too large, expected a number from 1 to %d", hop.Weight, maxWeight)
	}
	if err := r.checkAddress(hop.Gateway); err != nil {
		return "gateway", err
	}
	switch {
	case hop.Gateway.IsValid():
	case r.Family == Inet6:
		return "gateway", errors.New("it is missing, expected an address: of several IPv6 next hops each needs a gateway")
	case hop.Device == "":
		return "gateway", errors.New("it is missing, expected an address, or a device")
	}
	return "device", checkDevice(hop.Device)
}

// ways yields the only next hop of a route, or all of them if there are several.
func (r Route) ways() iter.Seq[Nexthop] {
	return func(yield func(Nexthop) bool) {
		if r.Nexthops.IsZero() {
			if r.Gateway.IsValid() || r.Device != "" {
				yield(Nexthop{Gateway: r.Gateway, Device: r.Device})
			}
			return
		}
		for _, hop := range r.Nexthops.All() {
			if !yield(hop) {
				return
			}
		}
	}
}

// SeenNexthop is one of several next hops of an existing route.
type SeenNexthop struct {
	Gateway netip.Addr `json:"gateway,omitzero"`
	Device  string     `json:"device,omitempty"`
	// OtherNames are the alternative names of the device, separated by spaces.
	OtherNames string `json:"otherNames,omitempty"`
	index      int    // of the device
	Weight     uint16 `json:"weight"`
	// Dead means that the next hop is not in use because its link is down.
	Dead bool `json:"dead,omitempty"`
	// GatewayDevice is the device that leads to the gateway now, if that is another one.
	GatewayDevice string `json:"gatewayDevice,omitempty"`
	// UncertainDevice is like that of Seen.
	UncertainDevice string `json:"uncertainDevice,omitempty"`
}

// plain returns the next hop as it was announced, without the names of its device and without Dead, to compare it
// with others.
func (h SeenNexthop) plain() SeenNexthop {
	return SeenNexthop{Gateway: h.Gateway, index: h.index, Weight: h.Weight}
}

// mapHops returns the results of applying a function to each next hop.
func mapHops(hops immutable.List[SeenNexthop], change func(SeenNexthop) SeenNexthop) immutable.List[SeenNexthop] {
	if hops.IsZero() {
		return hops
	}
	all := hops.Slice()
	for i, h := range all {
		all[i] = change(h)
	}
	return immutable.ListOf(all...)
}

// wantedHop is a next hop of a row with the index of its device.
type wantedHop struct {
	Nexthop
	index int // of the device; 0 if only its name is known, or if none is given
}

func (w wantedHop) isMetBy(h SeenNexthop) bool {
	if w.Device == "" && h.GatewayDevice != "" {
		return false
	}
	return w.Gateway == h.Gateway && w.Weight == h.Weight && !h.Dead && isDevice(w.Device, w.index, h.index, h.Device, h.OtherNames)
}

// isDevice reports whether a device is the wanted one. It compares the index if that is known,
// else the names. An empty name stands for any device.
func isDevice(want string, wantIndex, index int, name, otherNames string) bool {
	switch {
	case want == "", wantIndex > 0 && wantIndex == index:
		return true
	case wantIndex > 0:
		return false
	}
	return want == name || otherNames != "" && slices.Contains(strings.Fields(otherNames), want)
}

// pair returns the existing next hops that are not wanted and the wanted ones that are
// missing. The order of next hops does not matter.
func pair(wants []wantedHop, is []SeenNexthop) (missing []wantedHop, surplus []SeenNexthop) {
	if len(wants) == len(is) {
		same := true
		for i := range wants {
			same = same && wants[i].isMetBy(is[i])
		}
		if same {
			return nil, nil
		}
	}
	// Next hops without a device match what remains after the others.
	wants = slices.Clone(wants)
	slices.SortStableFunc(wants, func(a, b wantedHop) int { return strings.Compare(b.Device, a.Device) })
	surplus = slices.Clone(is)
	for _, w := range wants {
		if i := slices.IndexFunc(surplus, w.isMetBy); i >= 0 {
			surplus = slices.Delete(surplus, i, i+1)
		} else {
			missing = append(missing, w)
		}
	}
	return missing, surplus
}

// text returns the next hop in the syntax of ip(8).
func (n Nexthop) text() string {
	var words []string
	if n.Gateway.IsValid() {
		words = append(words, "via "+n.Gateway.String())
	}
	if n.Device != "" {
		words = append(words, "dev "+n.Device)
	}
	if n.Weight > 1 {
		words = append(words, fmt.Sprintf("weight %d", n.Weight))
	}
	return strings.Join(words, " ")
}

func nexthopsText(hops immutable.List[Nexthop]) string {
	var texts []string
	for _, h := range hops.All() {
		texts = append(texts, h.text())
	}
	return strings.Join(texts, ", ")
}

func seenText(hops immutable.List[SeenNexthop]) string {
	var texts []string
	for _, h := range hops.All() {
		text := Nexthop{h.Gateway, h.Device, h.Weight}.text()
		if h.Dead {
			text += " dead"
		}
		if h.GatewayDevice != "" {
			text += ", but " + h.GatewayDevice + " leads to it"
		}
		if h.UncertainDevice != "" {
			text += ", but perhaps " + h.UncertainDevice + " leads to it"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
