package managedfile

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) {
	if os.Getenv(userDir) != "" {
		goleak.VerifyTestMain(m) // it is in the namespaces already, and may not prepare them; exits
	}
	nstest.Main(m)
}
