package hold

import (
	"slices"
	"time"
)

// lowest is the lowest number of the last window of time. A limit that is relative to the lowest number
// of rows does not grow with those that were just added: otherwise the documents of another, larger
// machine would not exceed it.
type lowest struct {
	window time.Duration
	parts  []part // in order of time; the first one began before the window, if anything did
}

// part is a part of the window.
type part struct {
	from         time.Time
	lowest, last int // of its numbers; the last one holds until the next part
}

// parts is in how many parts a window is divided.
const parts = 16

// add records a number, which holds until another one is added.
func (l *lowest) add(n int, now time.Time) {
	if end := len(l.parts) - 1; end >= 0 && now.Sub(l.parts[end].from) < l.window/parts {
		l.parts[end].lowest, l.parts[end].last = min(l.parts[end].lowest, n), n
	} else {
		l.parts = append(l.parts, part{now, n, n})
	}
	l.expire(now)
}

// expire forgets what is older than the window.
func (l *lowest) expire(now time.Time) {
	old := 0
	for old+1 < len(l.parts) && now.Sub(l.parts[old+1].from) >= l.window {
		old++
	}
	l.parts = slices.Delete(l.parts, 0, old)
	if len(l.parts) > 0 && now.Sub(l.parts[0].from) >= l.window+l.window/parts {
		l.parts[0].lowest = l.parts[0].last
	}
}

// of returns the lowest number, or limit if that is lower or no number is known.
func (l *lowest) of(limit int) int {
	for _, p := range l.parts {
		limit = min(limit, p.lowest)
	}
	return limit
}
