package reconciler

import "math/rand/v2"

// Seed makes the jitter of a reconciler that has not started the same every time.
func (r *Reconciler[Obj]) Seed(seed uint64) { r.random = rand.New(rand.NewPCG(seed, 0)).Float64 }
