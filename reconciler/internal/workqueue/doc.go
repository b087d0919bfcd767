// Package workqueue holds the rows of a reconciler that have work pending, or wait for
// something. It knows rows only by their keys and entries, and belongs to one goroutine.
//
// Each [Item] is in one [Stage]. Only the function transition changes the stage, according to
// a table of legal moves that Documentation/life-of-a-row.md prints. Whether a row is waiting,
// held, failed or worth reporting follows from its stage alone.
//
// An item that is ready is in the queue of its priority class, once, however many reasons it
// has. Classes take turns by weight, so that none starves.
package workqueue
