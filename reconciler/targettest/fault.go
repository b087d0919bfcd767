package targettest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Fault is how an operation of a [Fake] goes wrong, or at least slowly. The zero
// value is an operation that succeeds at once. What fails comes after the
// latencies, the first of Panic, Goexit and Err that is set.
type Fault struct {
	// Before is how long the operation takes before it has its effect, and After
	// how long from there until it returns. Either ends early with the context,
	// as an error.
	Before, After time.Duration
	// Late is how long it takes to return after the end of its context.
	Late time.Duration
	// Deaf operations do not see that their context ends.
	Deaf bool
	// Stuck operations are deaf, and go on only after [Fake.Release].
	Stuck bool
	// Effect is how much is done.
	Effect Effect

	Err    error
	Panic  any
	Goexit bool // ends the goroutine of the operation
	// Again is that of the [reconciler.Result].
	Again time.Duration
}

// Effect is how much of an operation is done.
type Effect uint8

const (
	// Usual is all of an operation that succeeds and nothing of one that fails.
	Usual Effect = iota
	// Half is a part: an Update makes a thing and does not finish it, a Delete does
	// not finish it either, Prune removes one thing, Observe yields half of them.
	// The operation fails.
	Half
	// Whole is all of the operation, also if it fails.
	Whole
)

// fails says whether the operation fails by itself.
func (f Fault) fails() bool { return f.Panic != nil || f.Goexit || f.Err != nil }

// effect resolves Usual: does says whether anything is done.
func (f Fault) effect() (how Effect, does bool) {
	if f.Effect == Usual {
		return Whole, !f.fails()
	}
	return f.Effect, true
}

// Mix says how often operations go wrong in which way, as probabilities. Their sum
// is at most 1; Half and Whole apply to all and are apart from it.
type Mix struct {
	Error      float64 // an error that repeating mends
	Terminal   float64 // a [reconciler.Terminal] error
	RetryAfter float64 // a [reconciler.RetryAfter] error
	Panic      float64
	Goexit     float64
	Slow       float64 // takes up to Longest
	Deaf       float64 // takes up to Longest and does not see the end of its context
	Hang       float64 // returns at the end of its context only
	Again      float64 // succeeds and asks to be run again

	Half, Whole float64 // see [Effect]

	// Latency is up to how long each operation takes.
	Latency time.Duration
	// Longest bounds what is slow, and what RetryAfter and Again ask for; 1 second
	// if not positive.
	Longest time.Duration
}

// Random returns a decision for [Fake.Will] that draws from a mix. What happens
// in the n-th operation of a kind on a key depends on the seed, the kind, the key
// and n alone, so that it repeats itself however goroutines take turns. Latencies
// are drawn to the nanosecond, those after the end of a context included, so that
// operations hardly ever wake at one instant.
func Random(seed uint64, mix Mix) func(Operation) Fault {
	if mix.Longest <= 0 {
		mix.Longest = time.Second
	}
	return func(op Operation) Fault {
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%s %q %d", op.Kind, op.Key, op.Nth)
		return mix.draw(rand.New(rand.NewPCG(seed, hash.Sum64())))
	}
}

func (m Mix) draw(random *rand.Rand) Fault {
	f := Fault{Before: upTo(random, m.Latency), Late: upTo(random, time.Millisecond)}
	err := fmt.Errorf("fault %d", random.IntN(3))
	longest := upTo(random, m.Longest)
	switch roll := random.Float64(); {
	case roll < m.Whole:
		f.Effect = Whole
	case roll >= 1-m.Half:
		f.Effect = Half
	}
	roll := random.Float64()
	for _, way := range []struct {
		share float64
		set   func()
	}{
		{m.Error, func() { f.Err = err }},
		{m.Terminal, func() { f.Err = reconciler.Terminal(err) }},
		{m.RetryAfter, func() { f.Err = reconciler.RetryAfter(longest, err) }},
		{m.Panic, func() { f.Panic = err }},
		{m.Goexit, func() { f.Goexit = true }},
		{m.Slow, func() { f.Before = longest }},
		{m.Deaf, func() { f.Before, f.Deaf = longest, true }},
		{m.Hang, func() { f.Before = forever }},
		{m.Again, func() { f.Again = longest }},
	} {
		if roll -= way.share; roll < 0 {
			way.set()
			break
		}
	}
	return f
}

// forever is longer than any operation may take.
const forever = 1 << 60 * time.Nanosecond

// upTo returns a time that is positive and at most limit.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return 1 + time.Duration(random.Int64N(int64(limit)))
}
