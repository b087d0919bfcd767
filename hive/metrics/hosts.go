package metrics

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// anyHost in Config.Hosts stands for all names.
const anyHost = "*"

// knownHosts refuses requests that do not name this machine. Otherwise a web page could have a browser on this machine read the
// metrics by a name of its own that resolves to it (DNS rebinding).
func knownHosts(names []string, next http.Handler) http.Handler {
	if slices.Contains(names, anyHost) {
		return next
	}
	known := append([]string{"localhost"}, names...)
	if name, err := os.Hostname(); err == nil {
		known = append(known, name)
	}
	for i := range known {
		known[i] = strings.ToLower(known[i])
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !isAddress(host) && !slices.Contains(known, host) {
			text := fmt.Sprintf("%q is not a name that this machine is known by: use its address or host name, or add the name to --metrics-hosts", host)
			http.Error(w, text, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns a host without its port, in lower case.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isAddress reports whether a host is an address or missing, as in HTTP/1.0. Browsers always send one.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil || host == ""
}
