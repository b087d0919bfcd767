package reconciler

import "context"

// Scouts is how many cursors look ahead in the feed.
func (r *Reconciler[Obj]) Scouts() (n int) {
	_ = r.call(context.Background(), func(l *loop[Obj]) {
		if l.blast.scout != nil {
			n = 1
		}
	})
	return n
}
