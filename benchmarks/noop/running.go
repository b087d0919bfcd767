package noop

import "context"

// whileRunning calls use while start runs, and then ends start by its context.
// The channel that use gets is closed when start has ended by itself.
func whileRunning(ctx context.Context, start func(context.Context) error, use func(ended <-chan struct{})) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = start(ctx)
	}()
	use(ended)
	stopped := context.Cause(ctx) // by the caller
	cancel()
	<-ended
	if err == nil {
		err = stopped
	}
	return err
}

// await returns false if what is awaited will not come.
func await(what, ended <-chan struct{}) bool {
	select {
	case <-what:
		return true
	case <-ended:
		return false
	}
}
