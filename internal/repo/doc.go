// Package repo holds the rules that this repository keeps about itself, as tests: what packages may import, what a library may link, how
// sources look, and that the capability table names tests that exist. It has no code of its own and nobody imports it.
//
// Each rule is a function from the sources to what breaks it, so that it is tried on small made-up trees as well as on the repository. A
// message says what to change.
package repo
