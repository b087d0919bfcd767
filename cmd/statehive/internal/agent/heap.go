package agent

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
)

const (
	// heapPeriod is the interval between checks of the heap.
	heapPeriod = 5 * time.Second
	// heapBusy is how many bytes a busy agent allocates in that time. It is going to need
	// its unused memory.
	heapBusy = 16 << 20
	// heapSpare is how many bytes the heap may always have beyond what is needed.
	heapSpare = 32 << 20
)

// heapCell returns memory to the system. Reading documents takes several times the memory
// of the result, and the runtime keeps it for later use: it collects garbage when the heap
// has doubled, which hardly ever happens in an idle agent.
func heapCell() cell.Cell {
	return cell.Module("heap", "return of unused memory to the system",
		cell.Invoke(func(jobs job.Group) error {
			k := &heapKeeper{usage: readHeap, release: debug.FreeOSMemory}
			return jobs.Add(job.Timer("return memory", k.check, heapPeriod))
		}))
}

// heapKeeper keeps the heap of an idle agent close to what is needed.
type heapKeeper struct {
	usage   func() heapUsage
	release func()

	allocated uint64 // at the last check
	needed    uint64 // in use after the last release
}

// heapUsage is in bytes.
type heapUsage struct {
	obtained  uint64 // from the system and not returned, including garbage
	allocated uint64 // since the process started
}

// check releases unused memory if the agent has been idle since the last check. As a release
// collects garbage, it pays only if the heap is a quarter larger than needed.
func (k *heapKeeper) check(context.Context, health.Health) error {
	u := k.usage()
	busy := u.allocated-k.allocated >= heapBusy
	k.allocated = u.allocated
	if !busy && u.obtained > k.needed+k.needed/4+heapSpare {
		k.release()
		k.needed = k.usage().obtained
	}
	return nil
}

func readHeap() (u heapUsage) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	u.allocated = samples[0].Value.Uint64()
	for _, s := range samples[1:] {
		u.obtained += s.Value.Uint64()
	}
	return u
}
