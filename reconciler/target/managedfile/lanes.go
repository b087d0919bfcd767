package managedfile

import "github.com/statehive/statehive/reconciler/target/internal/parallel"

// maxLanes is how many directories are used at the same time. Those that do not answer keep
// theirs for a while, so it is more than a disk needs.
const maxLanes = 64

// maxWide is how many files of one directory are written at the same time.
const maxWide = 16

// byDirectory calls do for each number below n: one after the other for those that belong to the
// same directory, and at the same time for others. So a slow directory delays its own files.
func byDirectory[D comparable](n int, directory func(i int) D, do func(i int)) {
	lanes := lanesOf(n, directory)
	parallel.Upto(maxLanes, len(lanes), func(lane int) {
		for _, i := range lanes[lane] {
			do(i)
		}
	})
}

// lanesOf returns the numbers below n by directory.
func lanesOf[D comparable](n int, directory func(i int) D) (lanes [][]int) {
	known := map[D]int{}
	for i := range n {
		d := directory(i)
		lane, there := known[d]
		if !there {
			lane = len(lanes)
			known[d] = lane
			lanes = append(lanes, nil)
		}
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
}
