package route

import (
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) {
	nl.EnableErrorMessageReporting = true
	nstest.Main(m)
}
