package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manyForeign is what somebody else has besides [others]: among them routes to where
// ours go, which are worth less, and neighbors on a device that ours are on, too.
const manyForeign = others + `
for device in default guest0 ext1; do
	for name in rp_filter arp_ignore arp_announce; do echo 0 >/proc/sys/net/ipv4/conf/$device/$name; done
done
for i in $(seq 0 19); do
	ip route add 10.64.0.$i/32 via 10.99.0.9 metric 500 proto static
	ip route add 10.96.$i.0/24 via 10.99.0.9 table 150 proto static
	ip rule add priority $((9000 + i)) from 10.95.$i.0/24 table 100
	ip -6 rule add priority $((9000 + i)) from 2001:db8:95:$i::/64 table 100 proto static
	ip neigh add 10.99.0.$((100 + i)) lladdr 02:00:00:00:01:$((10 + i)) dev ext0 nud permanent
	ip neigh add 2001:db8:99::$((100 + i)) lladdr 02:00:00:00:01:$((10 + i)) dev ext0 nud permanent
	ip neigh add 10.77.0.$((100 + i)) lladdr 02:00:00:00:02:$((10 + i)) dev guest0 nud permanent
done
mkdir files files/directory
for i in $(seq 0 19); do
	echo "foreign $i" >files/foreign$i
	echo "hidden $i" >files/.foreign$i
	echo "foreign $i" >files/directory/foreign$i
	chmod 0640 files/foreign$i
done
ln -s foreign0 files/link
`

// files is the directory of those that documents declare. Others have some there, too.
func (w *world) files() string { return w.path("files") }

// makeForeign makes what is not ours, and the files that documents take over for a time.
func (w *world) makeForeign(ctx context.Context) error {
	if err := w.inside(ctx, "sh", "-ec", manyForeign).failure(); err != nil {
		return err
	}
	for i := 0; i < unitFiles**many.scale; i += 5 {
		name := filepath.Join(w.files(), fmt.Sprintf("adopted%d", i))
		if err := os.WriteFile(name, []byte(adoptedContent), 0o640); err != nil {
			return err
		}
	}
	for _, name := range []string{"theirs", "kept"} {
		if err := w.inside(ctx, os.Getenv(tablesVariable), "make", "inet", name).failure(); err != nil {
			return err
		}
	}
	return nil
}

// adoptedContent is what is in the files that documents take over.
const adoptedContent = "what was there before\n"

// settledWorld returns all there is in the network namespace and in the directory of
// files, once the kernel has made up its mind.
func (w *world) settledWorld(t *testing.T) outside {
	t.Helper()
	all := w.settledKernel(t)
	w.addTablesAndFiles(t, all)
	for name := range all {
		if strings.HasPrefix(name, "file adopted") { // it is another file each time
			_, content, _ := strings.Cut(all[name], "\n")
			all[name] = content
		}
	}
	return all
}

// Sysctls that no link of ours has; and what is ours.
const foreignSysctls = `^net[.]ipv[46][.]((conf|neigh)[.](all|default|lo|ext.|guest.)[.]|[a-z0-9_]+$)`

var (
	ourKernelObject = regexp.MustCompile(`"(k[0-9]+|` + cableOf + `|` + cableEnd + `)"|"protocol":"79"`)
	ourSysctl       = regexp.MustCompile(`^sysctl net[.]ipv4[.]conf[.](guest0|ext1)[.](` + strings.Join(manySysctls, "|") + `)$`)
	ourTableOrFile  = regexp.MustCompile(`^(table|file) (k[0-9]+|adopted[0-9]+|links|[.]statehive-tmp-.*)$`)
)

// foreignWorld returns all there is that is not ours.
func (w *world) foreignWorld(t *testing.T) outside {
	t.Helper()
	all := w.kernel(t, foreignSysctls)
	w.addTablesAndFiles(t, all)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return ourSysctl.MatchString(name) || ourTableOrFile.MatchString(name) ||
			strings.HasPrefix(name, "ip ") && ourKernelObject.MatchString(name)
	})
	return all
}

func (w *world) addTablesAndFiles(t *testing.T, all outside) {
	t.Helper()
	must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
		tables, err := w.dumpTables(ctx)
		for name, table := range tables {
			all["table "+name] = string(table)
		}
		return err
	}))
	must(t, filepath.WalkDir(w.files(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == w.files() { // which changes with what is in it
			return err
		}
		name, err := filepath.Rel(w.files(), path)
		if err != nil {
			return err
		}
		all["file "+name], err = describeFile(path, entry)
		return err
	}))
}

// describeFile returns all there is to know of a file but when it was read.
func describeFile(path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	var content []byte
	switch {
	case info.Mode().IsRegular():
		content, err = os.ReadFile(path)
	case info.Mode()&fs.ModeSymlink != 0:
		var to string
		to, err = os.Readlink(path)
		content = []byte(to)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("inode %d of %d, changed %v, %v\n%v %s", stat.Ino, stat.Uid, stat.Ctim, stat.Mtim, info.Mode(), content), err
}

// dumpTables returns nftables tables with all that is in them, by their names.
func (w *world) dumpTables(ctx context.Context) (map[string]json.RawMessage, error) {
	r := w.inside(ctx, os.Getenv(tablesVariable), "dump")
	if r.err != nil {
		return nil, r.failure()
	}
	var tables []json.RawMessage
	if err := json.Unmarshal([]byte(r.stdout), &tables); err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	for _, text := range tables {
		var table struct{ Table struct{ Name string } }
		if err := json.Unmarshal(text, &table); err != nil {
			return nil, err
		}
		all[table.Table.Name] = text
	}
	return all, nil
}

// ownObjects returns the states of what the agent, and no one else, has, by table
// and key.
func (w *world) ownObjects(ctx context.Context) (map[string]map[string]string, error) {
	all := objectSet{}.states()
	for _, add := range []func(context.Context, map[string]map[string]string) error{
		w.addOwnLinks, w.addOwnRoutes, w.addOwnRules, w.addOwnNeighbors, w.addOwnSysctls, w.addOwnTables, w.addOwnFiles,
	} {
		if err := add(ctx, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *world) addOwnLinks(ctx context.Context, all map[string]map[string]string) error {
	var devices []struct {
		Name   string `json:"ifname"`
		MTU    int    `json:"mtu"`
		MAC    string `json:"address"`
		Master string `json:"master"`
		Kind   struct {
			Name string `json:"info_kind"`
		} `json:"linkinfo"`
		Addresses []struct {
			Local  string `json:"local"`
			Length int    `json:"prefixlen"`
			Scope  string `json:"scope"`
			Valid  int64  `json:"valid_life_time"` // in seconds
		} `json:"addr_info"`
	}
	if err := w.listed(ctx, &devices, "-d", "addr"); err != nil {
		return err
	}
	for _, d := range devices {
		if !strings.HasPrefix(d.Name, "k") && d.Name != cableOf && d.Name != cableEnd {
			continue
		}
		state := fmt.Sprint(" mtu ", d.MTU)
		if d.Kind.Name == "tun" {
			state = "tun" + state
		}
		if strings.HasPrefix(d.MAC, "02:00:01:") {
			state += " mac " + d.MAC
		}
		if d.Master != "" {
			state += " master " + d.Master
		}
		all["links"][d.Name] = state
		for _, a := range d.Addresses {
			if a.Scope == "link" {
				continue
			}
			state := "scope " + a.Scope
			if a.Valid < math.MaxUint32 {
				state += ", ends"
			}
			all["addresses"][fmt.Sprintf("%s %s/%d", d.Name, a.Local, a.Length)] = state
		}
	}
	return nil
}

func (w *world) addOwnRoutes(ctx context.Context, all map[string]map[string]string) error {
	for _, family := range []string{"-4", "-6"} {
		var routes []struct {
			Type        string `json:"type"`
			Destination string `json:"dst"`
			Gateway     string `json:"gateway"`
			Table       string `json:"table"`
			Metrics     []struct {
				MTU int `json:"mtu"`
			} `json:"metrics"`
			Nexthops []struct {
				Gateway string `json:"gateway"`
				Weight  int    `json:"weight"`
			} `json:"nexthops"`
		}
		if err := w.listed(ctx, &routes, family, "route", "show", "table", "all", "proto", "79"); err != nil {
			return err
		}
		for _, r := range routes {
			if family == "-4" && !strings.Contains(r.Destination, "/") {
				r.Destination += "/32"
			}
			if r.Table == "" {
				r.Table = "main"
			}
			way := r.Gateway
			if r.Type == "blackhole" {
				way = r.Type
			}
			for _, m := range r.Metrics {
				way += fmt.Sprint(" mtu ", m.MTU)
			}
			var hops []string // in the order of the kernel
			for _, hop := range r.Nexthops {
				hops = append(hops, fmt.Sprintf("%s*%d", hop.Gateway, hop.Weight))
			}
			slices.Sort(hops)
			way += strings.Join(hops, " ")
			all["routes"][r.Destination] += strings.TrimSpace(way) + " table " + r.Table // of two there are both
		}
	}
	return nil
}

func (w *world) addOwnRules(ctx context.Context, all map[string]map[string]string) error {
	for option, family := range map[string]string{"-4": "inet", "-6": "inet6"} {
		var rules []struct {
			Priority int    `json:"priority"`
			Source   string `json:"src"`
			Length   int    `json:"srclen"`
			Table    string `json:"table"`
			Protocol string `json:"protocol"`
			Action   string `json:"action"`
			Mark     string `json:"fwmark"`
		}
		if err := w.listed(ctx, &rules, option, "rule"); err != nil {
			return err
		}
		for _, r := range rules {
			state := "table " + r.Table
			if r.Action != "" {
				state = r.Action + " mark " + r.Mark
			}
			if r.Protocol == "79" {
				all["rules"][fmt.Sprint(family, " ", r.Priority)] += fmt.Sprintf("from %s/%d %s", r.Source, r.Length, state)
			}
		}
	}
	return nil
}

func (w *world) addOwnNeighbors(ctx context.Context, all map[string]map[string]string) error {
	var neighbors []struct {
		Device   string `json:"dev"`
		Address  string `json:"dst"`
		MAC      string `json:"lladdr"`
		Protocol string `json:"protocol"`
	}
	if err := w.listed(ctx, &neighbors, "neigh", "show", "nud", "permanent"); err != nil {
		return err
	}
	for _, n := range neighbors {
		if n.Protocol == "79" {
			all["neighbors"][n.Device+" "+n.Address] = n.MAC
		}
	}
	return nil
}

// addOwnSysctls adds those that are not 0, which nobody else has.
func (w *world) addOwnSysctls(ctx context.Context, all map[string]map[string]string) error {
	values, err := w.sysctls(ctx, `^net[.]ipv4[.]conf[.](k[0-9]+|guest0|ext1)[.](`+strings.Join(manySysctls, "|")+`)$`)
	for name, value := range values {
		if value != "0" {
			all["sysctls"][name] = value
		}
	}
	return err
}

func (w *world) addOwnTables(ctx context.Context, all map[string]map[string]string) error {
	tables, err := w.dumpTables(ctx)
	for name, text := range tables {
		if !strings.HasPrefix(name, "k") || name == "kept" {
			continue
		}
		var table struct {
			Chains []struct {
				Chain struct {
					Name   string
					Policy int
				}
				Rules []json.RawMessage
			}
			Sets []struct {
				Set      struct{ Name string }
				Elements []json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &table); err != nil {
			return err
		}
		var parts []string
		for _, c := range table.Chains {
			parts = append(parts, fmt.Sprintf("%s: policy %s, %d rules", c.Chain.Name, []string{"drop", "accept"}[c.Chain.Policy], len(c.Rules)))
		}
		for _, s := range table.Sets {
			parts = append(parts, fmt.Sprintf("%s: %d elements", s.Set.Name, len(s.Elements)))
		}
		all["nft-tables"][name] = strings.Join(parts, "; ")
	}
	return err
}

// addOwnFiles adds those of ours, what is left over from writing them included.
func (w *world) addOwnFiles(_ context.Context, all map[string]map[string]string) error {
	entries, err := os.ReadDir(w.files())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !ourTableOrFile.MatchString("file " + entry.Name()) {
			continue
		}
		path := filepath.Join(w.files(), entry.Name())
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if string(content) != adoptedContent {
			all["files"][entry.Name()] = fmt.Sprintf("%04o %s", info.Mode().Perm(), content)
		}
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
