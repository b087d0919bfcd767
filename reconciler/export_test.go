package reconciler

import "github.com/statehive/statehive/reconciler/internal/engine"

// What tests may see of the engine.

func (r *Reconciler[Obj]) Seed(seed uint64)                { r.engine.Seed(seed) }
func (r *Reconciler[Obj]) OnMove(fn func(from, to string)) { r.engine.OnMove(fn) }
func (r *Reconciler[Obj]) Items() []string                 { return r.engine.Items() }
func (r *Reconciler[Obj]) Stage(key string) string         { return r.engine.Stage(key) }
func (r *Reconciler[Obj]) Round() int                      { return r.engine.Round() }
func (r *Reconciler[Obj]) Waiting() int                    { return r.engine.Waiting() }
func (r *Reconciler[Obj]) LooksAhead() int                 { return r.engine.LooksAhead() }

var (
	Stages  = engine.Stages
	Classes = engine.Classes
)
