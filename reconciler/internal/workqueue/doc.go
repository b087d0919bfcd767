// Package workqueue holds the rows of a reconciler that have something to be done, or to
// wait for. It knows rows only by their keys and entries, and belongs to one goroutine.
//
// Each [Item] is in one [Stage], which is stored and changed by one function, transition,
// with a table of legal moves: Documentation/life-of-a-row.md prints that table. Whether a
// row is waiting, held, failed or worth reporting follows from its stage; nothing decides it
// a second time.
//
// An item that is ready is in the queue of its priority class, once, however many reasons it
// has. Classes take turns by weight, so that none starves.
package workqueue
