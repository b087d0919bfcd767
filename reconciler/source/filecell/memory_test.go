package filecell

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler/source/file"
)

// silentMemory does not return before it is released.
type silentMemory struct{ released chan struct{} }

func (m silentMemory) InForce() file.InForce { return file.InForce{} }

func (m silentMemory) SetInForce(file.InForce) error {
	<-m.released
	return nil
}

func TestHealthIsNotGreenWhileTheMemoryDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := silentMemory{make(chan struct{})}
		m := &memory{Memory: silent, changed: make(chan struct{}, 1)}
		ended := make(chan error)
		go func() { ended <- m.SetInForce(file.InForce{Files: 1}) }()
		time.Sleep(patience)
		<-m.changed
		if err := m.problem(); err == nil || !strings.Contains(err.Error(), "the file system does not answer") {
			t.Errorf("error %v", err)
		}
		close(silent.released)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-m.changed
		if err := m.problem(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
