// Package pool carries out the operations of a reconciler: workers take batches of tasks, and
// call the target for one after the other, or for many of the same kind in one call.
//
// The goroutine that makes a [Pool] owns it: it hands out batches, takes back what has not
// begun, and collects what has ended. While an operation runs its worker alone writes the
// outcome of the task, and the owner everything else. Each operation has a deadline, at which
// its context ends; the owner replaces the worker of an operation that does not return long
// after that, and nobody waits for it.
//
// The pool knows nothing of row types. What is called, and whether a task is still right at
// the moment it begins, is decided by the functions that it is given.
package pool
