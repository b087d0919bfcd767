package process

import "time"

// Patience is how long something about another process may take: an answer of the kernel, or its end once it was killed.
const Patience = 2 * time.Second

// Ask returns the answer to a question that another process may keep the kernel from answering, or the zero value if there is none within
// Patience. The question then goes on in a goroutine of its own. It may be about the memory of the process, such as its command line, which the
// process can lock, or the close of a connection to it: see [Discard].
func Ask[T any](question func() T) T { return AskUntil(time.Now().Add(Patience), question) }

// AskUntil is [Ask] with another limit. After it, the question is not asked at all.
func AskUntil[T any](until time.Time, question func() T) (known T) {
	left := time.Until(until)
	if left <= 0 {
		return known
	}
	answer := make(chan T, 1)
	go func() { answer <- question() }()
	select {
	case known = <-answer:
	case <-time.After(left):
	}
	return known
}
