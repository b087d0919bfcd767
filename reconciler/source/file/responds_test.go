package file

import (
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// silence makes the file system of the directory stop responding, until end is called. It counts
// the calls that wait.
func (h *harness) silence() (end func(), calls *atomic.Int64) {
	silent, calls := make(chan struct{}), new(atomic.Int64)
	respond := h.source.directory.ask
	h.source.directory.ask = func() {
		calls.Add(1)
		<-silent
		respond()
	}
	return func() {
		close(silent)
		synctest.Wait()
	}, calls
}

// busy makes listings of the directory block, as any process that may list it can.
func (h *harness) busy() (end func(), calls *atomic.Int64) {
	silent, calls := make(chan struct{}), new(atomic.Int64)
	list := h.source.readDir
	h.source.readDir = func(dir string) ([]os.DirEntry, os.FileInfo, error) {
		calls.Add(1)
		<-silent
		return list(dir)
	}
	return func() {
		close(silent)
		synctest.Wait()
	}, calls
}

func TestADirectoryThatDoesNotRespondIsReported(t *testing.T) {
	for name, silence := range map[string]func(h *harness) (func(), *atomic.Int64){"silent": (*harness).silence, "busy": (*harness).busy} {
		t.Run(name, func(t *testing.T) { reportsSilence(t, silence) })
	}
}

func reportsSilence(t *testing.T, silence func(h *harness) (end func(), calls *atomic.Int64)) {
	t.Helper()
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "a")}, func(t *testing.T, h *harness) {
		h.settle()
		end, calls := silence(h)
		h.write("b.yaml", routeTo(netB, "b"))
		for range 3 {
			<-time.After(h.look())
		}
		why := ".: the directory cannot be listed: its file system does not answer, perhaps because its server is away; 1 row stays in force until it can be"
		h.wantDocuments(". error 0/0: "+why, "a.yaml ok 1/1")
		h.wantState(true, why)
		h.wantRoutes(netA + " a")
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls wait", n)
		}
		end()
		h.settle()
		h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1")
		h.wantState(true, "")
		h.wantRoutes(netA+" a", netB+" b")
	})
}

func TestTheWatcherAsksWhetherTheDirectoryResponds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		w := &watcher{directory: h.source.directory}
		began := time.Now()
		w.wait(t.Context(), h.source.config.Quiet, time.Minute)
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %v while it responded", waited)
		}
		end, _ := h.silence()
		defer end()
		began = time.Now()
		w.wait(t.Context(), h.source.config.Quiet, time.Minute)
		if waited := time.Since(began); waited != mountCheck+patience {
			t.Errorf("waited %v while it did not respond", waited)
		}
	})
}
