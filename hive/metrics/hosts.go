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

// knownHosts answers requests that name this machine: otherwise a web page could have a browser on it read the metrics, under
// a name of its own that leads here (DNS rebinding).
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

// hostOf returns a host without its port, in small letters.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isAddress reports whether a host is an address, or is not given, as in HTTP/1.0: browsers always give it.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil || host == ""
}
