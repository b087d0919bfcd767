// Package targettest checks that a target keeps the contract of
// [reconciler.Target], on whatever the target works on, and has a target for
// tests of what uses targets.
//
// # The contract kit
//
// [Run] takes a [Contract]: how to open the target, some rows, and what can be
// done to its world without it.
//
//	func TestContract(t *testing.T) {
//		targettest.Run(t, targettest.Contract[Row]{
//			Open: func(t *testing.T) reconciler.Target[Row] { return New(dir) },
//			Key:  func(r Row) string { return r.Name },
//			Rows: []Row{{Name: "a", Text: "1"}, {Name: "b", Text: "2"}},
//		})
//	}
//
// Each rule of the contract is a subtest. Rules come in the order in which they
// build on each other, and the first broken one is the last to be checked: so
// what is reported is the cause. A target that is also a [reconciler.Observer], a
// [reconciler.Differ] or a [reconciler.BatchTarget] is checked as such; Prune is
// checked of one that is no observer. The comment of [reconciler.Target] lists the rules. Run
// makes and removes real things: run it where that does no harm.
//
// Interruptions happen where an operation looks at its context, by Err or Done:
// there the context ends, or the whole operation does, as if the process had
// died, or something is removed behind the target's back. A target that looks
// before each of its steps is tried at each of them.
//
// # The fake
//
// [Fake] is a target whose world is in memory. It fails as a test wants it to,
// logs its operations, and says where its caller broke a promise.
package targettest
