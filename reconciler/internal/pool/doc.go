// Package pool carries out the operations of a reconciler: workers take batches of tasks, and
// call the target for one task after the other, or for many of the same kind in one call.
//
// The goroutine that makes a [Pool] owns it: it hands out batches, takes back tasks that have
// not begun, and collects tasks that have ended. While an operation runs, only its worker
// writes the outcome of the task, and only the owner writes everything else. Each operation
// has a deadline, at which its context ends. If an operation has not returned long after
// that, the owner replaces its worker and no longer waits for it.
//
// The pool knows nothing about row types. Its Calls decide what to call, and whether a task is
// still up to date when it begins.
package pool
