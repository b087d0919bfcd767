package targettest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Fault describes how an operation of a [Fake] fails or is delayed. With the zero
// value the operation succeeds immediately. The failure, which is the first of Panic,
// Goexit and Err that is set, happens after the delays.
type Fault struct {
	// Before is how long the operation takes until it has its effect, and After how
	// long it takes from then until it returns. If the context ends first, the
	// operation returns an error.
	Before, After time.Duration
	// Late is how long the operation takes to return after its context has ended.
	Late time.Duration
	// Deaf makes the operation ignore the end of its context.
	Deaf bool
	// Stuck blocks the operation until [Fake.Release], even if its context ends.
	Stuck bool
	// Effect is how much is done.
	Effect Effect

	Err    error
	Panic  any
	Goexit bool // ends the goroutine of the operation
	// Again is returned in the [reconciler.Result].
	Again time.Duration
}

// Effect is how much of an operation is done.
type Effect uint8

const (
	// Usual is the whole effect if the operation succeeds, and none if it fails.
	Usual Effect = iota
	// Half is a part of the effect, and the operation fails: Update and Delete leave
	// a half-made object, Prune removes one object, and Observe yields half of the
	// objects.
	Half
	// Whole is the whole effect, even if the operation fails.
	Whole
)

// fails reports whether the operation fails by itself.
func (f Fault) fails() bool { return f.Panic != nil || f.Goexit || f.Err != nil }

// effect resolves Usual. It reports whether the operation has any effect.
func (f Fault) effect() (how Effect, does bool) {
	if f.Effect == Usual {
		return Whole, !f.fails()
	}
	return f.Effect, true
}

// Mix has the probabilities of the ways in which operations fail. Their sum is at most 1.
// Half and Whole are not part of the sum, because they apply to all operations.
type Mix struct {
	Error      float64 // an error that a retry can fix
	Terminal   float64 // a [reconciler.Terminal] error
	RetryAfter float64 // a [reconciler.RetryAfter] error
	Panic      float64
	Goexit     float64
	Slow       float64 // takes up to Longest
	Deaf       float64 // takes up to Longest and ignores the end of its context
	Hang       float64 // returns only when its context ends
	Again      float64 // succeeds and asks for another run

	Half, Whole float64 // see [Effect]

	// Latency is the longest time that an ordinary operation takes.
	Latency time.Duration
	// Longest bounds the duration of slow operations, and the times that RetryAfter and
	// Again ask for. The default is 1 second.
	Longest time.Duration
}

// Random returns a function for [Fake.Will] that draws faults from a mix. The fault of
// the n-th operation of a kind on a key depends only on the seed, the kind, the key and
// n, so that it is reproducible however goroutines are scheduled. All latencies,
// including those after the end of a context, have a resolution of a nanosecond, so that
// operations rarely wake at the same instant.
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

// upTo returns a random duration that is positive and at most limit, or 0 if limit is not positive.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return 1 + time.Duration(random.Int64N(int64(limit)))
}
