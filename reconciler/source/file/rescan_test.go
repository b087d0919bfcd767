package file

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func TestRescanHasRunLookNow(t *testing.T) {
	h := newHarness(t, map[string]string{"a.yaml": routeTo("10.0.0.0/24", "")})
	h.settle() // nothing is left to look at again
	h.source.config.Rescan = time.Hour
	looks := make(chan struct{})
	list := h.source.readDir
	h.source.readDir = func(dir string) ([]os.DirEntry, os.FileInfo, error) {
		looks <- struct{}{}
		return list(dir)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- h.source.Run(ctx) }()
	// The first turn lists twice, because its watches are new.
	<-looks
	<-looks
	h.source.Rescan()
	select {
	case <-looks:
	case err := <-ended:
		t.Fatal(errors.Join(err, errors.New("it did not look again")))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
