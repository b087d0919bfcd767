// Package pool carries out the operations of a reconciler: workers take batches of tasks, and
// call the target for one after the other, or for many of the same kind in one call.
//
// The goroutine that makes a [Pool] owns it: it hands out batches, takes back what has not
// begun, and collects what has ended. While an operation runs its worker alone writes the
// outcome of the task, and the owner everything else. Each operation has a deadline, at which
// its context ends; the owner replaces the worker of an operation that does not return long
// after that, and does not wait for it.
//
// The pool knows nothing about row types. Its Calls decide what to call, and whether a task is
// still right when it begins.
package pool
