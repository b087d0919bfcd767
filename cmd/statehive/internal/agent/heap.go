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
	// heapBusy is how much a busy agent allocates in that time: it needs the memory
	// itself.
	heapBusy = 16 << 20
	// heapSpare is how much the heap may always hold beyond what is needed.
	heapSpare = 32 << 20
)

// heapCell returns memory to the system. Reading documents takes several times the memory
// of the result, and the runtime keeps it for later use: it collects garbage when the heap
// has doubled, which hardly ever happens in an idle agent.
func heapCell() cell.Cell {
	return cell.Module("heap", "returns unused memory to the system",
		cell.Invoke(func(jobs job.Group) error {
			k := &heapKeeper{usage: readHeap, release: debug.FreeOSMemory}
			return jobs.Add(job.Timer("return memory", k.look, heapPeriod))
		}))
}

// heapKeeper keeps the heap of an idle agent close to what is needed.
type heapKeeper struct {
	usage   func() heapUsage
	release func()

	allocated uint64 // at the last check
	needed    uint64 // held after the last release
}

// heapUsage is in bytes.
type heapUsage struct {
	held      uint64 // of the system, garbage included
	allocated uint64 // since the start of the process
}

// look releases unused memory if the agent has been idle since the last check. As a release
// collects garbage, it is worth it only if a quarter more than needed is held.
func (k *heapKeeper) look(context.Context, health.Health) error {
	u := k.usage()
	busy := u.allocated-k.allocated >= heapBusy
	k.allocated = u.allocated
	if !busy && u.held > k.needed+k.needed/4+heapSpare {
		k.release()
		k.needed = k.usage().held
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
		u.held += s.Value.Uint64()
	}
	return u
}
