// Package parallel does many things that each wait for a disk. Several that wait at
// the same time share the work: a file system commits them together.
package parallel

import (
	"sync"
	"sync/atomic"
)

// workers is how many things wait at the same time.
const workers = 16

// Each calls do with each number below n, several at the same time, and returns when
// all calls have.
func Each(n int, do func(i int)) { Upto(workers, n, do) }

// Upto does the same, with at most a number of calls at the same time.
func Upto(most, n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(n, most) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	running.Wait()
}
