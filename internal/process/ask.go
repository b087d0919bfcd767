package process

import "time"

// Patience is how long something about another process may take: an answer of the kernel, or its end once it was killed.
const Patience = 2 * time.Second

// Ask returns the answer to a question about the memory of another process, such as its command line, or the zero value if there is none
// within Patience. A process can lock its memory so that the kernel never answers; the question then goes on in a goroutine of its own.
func Ask[T any](question func() T) T {
	answer := make(chan T, 1)
	go func() { answer <- question() }()
	select {
	case known := <-answer:
		return known
	case <-time.After(Patience):
		var unknown T
		return unknown
	}
}
