// Package repo has the rules of this repository, as tests: which packages may be imported where, what a library may link, the form of
// sources, and that the tests named in the capability table exist. It has no code of its own and is imported by no other package.
//
// Each rule is a function that returns the violations in a tree of sources, so that it is tested on small made-up trees as well as on the
// repository. The messages say what to change.
package repo
