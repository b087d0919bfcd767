package nstest_test

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// What is below /proc/sys/net is that of the calling thread.
func TestEveryThreadIsInTheNamespaces(t *testing.T) {
	process, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	nstest.Veth(t, "e0", "e1")
	const threads = 20
	var together, done sync.WaitGroup
	together.Add(threads)
	for range threads {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			together.Done()
			together.Wait() // so each goroutine has a thread of its own
			if is, err := os.Readlink("/proc/thread-self/ns/net"); is != process || err != nil {
				t.Errorf("a thread is in %s, %v, the process in %s", is, err, process)
			}
			if _, err := os.Stat("/proc/sys/net/ipv4/conf/e0"); err != nil {
				t.Errorf("a thread does not see the settings of a link of the namespace: %v", err)
			}
		})
	}
	done.Wait()
}
