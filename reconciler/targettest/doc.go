// Package targettest checks that a target keeps the contract of
// [reconciler.Target], and has a fake target for tests of code that uses targets.
//
// # The contract kit
//
// [Run] takes a [Contract]: how to open the target, some rows, and functions
// that access the target's world behind its back.
//
//	func TestContract(t *testing.T) {
//		targettest.Run(t, targettest.Contract[Row]{
//			Open: func(t *testing.T) reconciler.Target[Row] { return New(dir) },
//			Key:  func(r Row) string { return r.Name },
//			Rows: []Row{{Name: "a", Text: "1"}, {Name: "b", Text: "2"}},
//		})
//	}
//
// Each rule of the contract is a subtest. Rules are ordered so that each builds on
// those before it, and Run stops at the first broken rule, so that it reports the
// cause of a failure. The optional interfaces [reconciler.Observer],
// [reconciler.Differ] and [reconciler.BatchTarget] are checked if the target
// implements them; Prune is checked if the target is not an observer. The comment of
// [reconciler.Target] lists the rules. Run makes and removes real objects: run it
// where that does no harm.
//
// Operations are interrupted where they check their context, by Err or Done. At
// that point the context ends, or the whole operation ends as if the process had
// died, or an object is removed behind the target's back. A target that checks its
// context before each of its steps is interrupted at each of them.
//
// # The fake
//
// [Fake] is a target whose world is in memory. It fails as the test tells it to,
// logs its operations, and reports violations of the contract by its caller.
package targettest
