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
	// heapPeriod is how often the heap is looked at.
	heapPeriod = 5 * time.Second
	// heapBusy is how much is allocated in that time when something is going on, which
	// needs the memory itself.
	heapBusy = 16 << 20
	// heapSpare is what the heap may hold in any case beyond what it needs.
	heapSpare = 32 << 20
)

// heapCell returns memory to the system. Documents take several times their memory
// while they are read, and the runtime keeps it, for the next ones: it collects when
// the heap has doubled, and hardly ever in an agent that has nothing to do.
func heapCell() cell.Cell {
	return cell.Module("heap", "returns unused memory to the system",
		cell.Invoke(func(jobs job.Group) error {
			k := &heapKeeper{usage: readHeap, release: debug.FreeOSMemory}
			return jobs.Add(job.Timer("return memory", k.look, heapPeriod))
		}))
}

// heapKeeper has the heap hold little more than it needs once nothing goes on.
type heapKeeper struct {
	usage   func() heapUsage
	release func()

	allocated uint64 // when it was looked at last
	needed    uint64 // what the heap held after the last release
}

// heapUsage is in bytes.
type heapUsage struct {
	held      uint64 // of the system, garbage included
	allocated uint64 // since the start of the process
}

// look releases what is not needed when nothing went on since the last look. A
// release collects garbage: for one there has to be a quarter more than was needed.
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
