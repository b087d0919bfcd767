package file

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb"
)

// events is a follower that was notified of writes.
type events []string

func (events) follow(interest) (bool, error) { return false, nil }

func (e events) written() map[string]bool {
	paths := map[string]bool{}
	for _, path := range e {
		paths[path] = true
	}
	return paths
}

// noLeases is how it is on a file system without leases.
func noLeases(*os.File) bool { return false }

func (h *harness) open(name string, flags int) *os.File {
	h.t.Helper()
	f, err := os.OpenFile(h.path(name), flags, 0o600)
	h.must(err)
	return f
}

func (h *harness) put(f *os.File, text string) {
	h.t.Helper()
	_, err := f.WriteString(text)
	h.must(err)
}

// during looks again and again for a time, as often as the source wants and every 40 ms.
func (h *harness) during(d time.Duration) {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		again := h.look()
		<-time.After(max(time.Millisecond, min(again, 40*time.Millisecond)))
	}
}

// wantMetrics compares the metrics of the routes.
func (h *harness) wantMetrics(want ...uint32) {
	h.t.Helper()
	var got []uint32
	for r := range h.routes.All(h.db.ReadTxn()) {
		got = append(got, r.Metric)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.t.Errorf("metrics are %v, want %v", got, want)
	}
}

func metric(n int) string { return fmt.Sprintf("%smetric: %d\n", routeTo(netA, "eth0"), n) }

// The row W12: (sleep 1; generate) > file.
func TestAFileThatASlowGeneratorWritesNeverLosesItsRows(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": metric(0), "b.yaml": routeTo(netB, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+"+netA, "+"+netB)
		for i := range 100 {
			f := h.open("a.yaml", os.O_WRONLY|os.O_TRUNC)
			h.during(2 * time.Second)
			h.put(f, metric(i + 1)[:40])
			h.during(2 * time.Second)
			h.wantChanges()
			h.wantState(true, "")
			h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1")
			h.put(f, metric(i + 1)[40:])
			h.must(f.Close())
			h.during(time.Second)
			h.wantChanges("+" + netA)
			h.wantMetrics(uint32(i+1), 0)
		}
	})
}

func TestAHalfWrittenNumberIsNotApplied(t *testing.T) {
	for name, probe := range map[string]func(*os.File) bool{"with leases": openForWriting, "without leases": noLeases} {
		t.Run(name, func(t *testing.T) {
			bubble(t, map[string]string{"a.yaml": metric(140)}, func(_ *testing.T, h *harness) {
				h.source.writing = probe
				h.settle()
				text := metric(150)
				f := h.open("a.yaml", os.O_WRONLY|os.O_TRUNC)
				h.put(f, text[:len(text)-2]) // "metric: 15"
				h.during(900 * time.Millisecond)
				h.wantMetrics(140)
				h.put(f, text[len(text)-2:])
				h.must(f.Close())
				h.during(time.Second)
				h.wantMetrics(150)
			})
		})
	}
}

func TestAFileThatIsTruncatedAndRewrittenInPlaceIsReadWhenItIsComplete(t *testing.T) {
	text := documents(routeTo(netA, "eth1"), routeTo(netB, "eth1"), routeTo(netC, "eth1"))
	for name, probe := range map[string]func(*os.File) bool{"with leases": openForWriting, "without leases": noLeases} {
		t.Run(name, func(t *testing.T) {
			bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
				h.source.writing = probe
				h.settle()
				h.wantChanges("+" + netA)
				f := h.open("a.yaml", os.O_WRONLY|os.O_TRUNC)
				h.during(800 * time.Millisecond)
				for line := range strings.Lines(text) {
					h.put(f, line)
					h.during(80 * time.Millisecond)
					h.wantChanges()
				}
				h.must(f.Close())
				h.during(time.Second)
				h.wantRoutes(netA+" eth1", netB+" eth1", netC+" eth1")
			})
		})
	}
}

func TestAFileThatIsAppendedToInSeveralCyclesIsReadAfterTheLast(t *testing.T) {
	text := documents(routeTo(netA, "eth1"), routeTo(netB, "eth1"), routeTo(netC, "eth1"))
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+" + netA)
		h.write("a.yaml", "")
		h.during(800 * time.Millisecond)
		for line := range strings.Lines(text) {
			f := h.open("a.yaml", os.O_WRONLY|os.O_APPEND)
			h.put(f, line)
			h.must(f.Close())
			h.during(80 * time.Millisecond)
			h.wantChanges()
		}
		h.during(time.Second)
		h.wantRoutes(netA+" eth1", netB+" eth1", netC+" eth1")
		h.wantChanges("+"+netA, "+"+netB, "+"+netC)
	})
}

func TestAFileThatReplacesAnotherIsReadAtOnce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netB, "eth0"))}, func(_ *testing.T, h *harness) {
		h.settle()
		h.write(".next", routeTo(netA, "eth1"))
		h.must(os.Rename(h.path(".next"), h.path("a.yaml")))
		h.look()
		h.wantRoutes(netA + " eth1")
		h.write(".new", routeTo(netC, "eth1"))
		h.must(os.Rename(h.path(".new"), h.path("c.yaml")))
		h.look()
		h.wantRoutes(netA+" eth1", netC+" eth1")
	})
}

func TestANewFileThatIsWrittenInPlaceIsReadWhenItIsQuiet(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		h.source.writing = noLeases
		h.settle()
		h.write("b.yaml", routeTo(netB, "eth0"))
		if again := h.lookAfter(events{h.path("b.yaml")}); again > fileQuiet {
			h.t.Errorf("looks again after %v", again)
		}
		h.wantRoutes(netA + " eth0")
		h.wantDocuments("a.yaml ok 1/1")
		h.wantState(true, "")
		h.settle()
		h.wantRoutes(netA+" eth0", netB+" eth0")
	})
}

// lookAfter looks once, notified of events.
func (h *harness) lookAfter(e events) time.Duration {
	h.t.Helper()
	again, err := h.source.reload(context.Background(), e)
	h.must(err)
	return again
}

func TestAWriterThatComesWhileAFileIsReadIsNoticed(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+" + netA)
		replace := func(text string) {
			h.write(".next", text)
			h.must(os.Rename(h.path(".next"), h.path("a.yaml")))
		}
		asked := 0
		h.source.writing = func(*os.File) bool { asked++; return asked%2 == 0 }
		replace(routeTo(netA, "eth1"))
		h.look()
		h.wantChanges()

		// One who has come and gone.
		asked = 0
		h.source.writing = func(*os.File) bool {
			if asked++; asked == 2 {
				h.write("a.yaml", routeTo(netA, "eth3"))
			}
			return false
		}
		replace(routeTo(netA, "eth2"))
		h.look()
		h.wantChanges()
		h.settle()
		h.wantRoutes(netA + " eth3")
		h.wantChanges("+" + netA)
	})
}

func TestAFileThatIsBeingWrittenAtTheStartMakesTheSourceIncomplete(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		f := h.open("b.yaml", os.O_WRONLY|os.O_CREATE)
		h.put(f, "kind: route\ndesti")
		h.during(1500 * time.Millisecond)
		h.wantRoutes(netA + " eth0")
		h.wantState(true, "b.yaml: is being written, and has not been read yet")
		h.wantDocuments("a.yaml ok 1/1", "b.yaml writing 0/0")
		h.put(f, "nation: "+netB+"\n")
		h.must(f.Close())
		h.during(time.Second)
		h.wantState(true, "")
		h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1")
	})
}

func TestAFileThatWasWrittenJustBeforeTheStartIsWaitedFor(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		if again := h.look(); again > fileQuiet {
			t.Errorf("looks again after %v", again)
		}
		h.wantState(false, "")
		h.settle()
		h.wantState(true, "")
		h.wantLog(`level=INFO msg="Documents applied" files=1 rows=1`)
	})
}

func TestOldFilesDoNotDelayTheStart(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		old := time.Now().Add(-time.Minute)
		h.must(os.Chtimes(h.path("a.yaml"), old, old))
		h.look()
		h.wantState(true, "")
		h.wantRoutes(netA + " eth0")
	})
}

func TestAFileThatStaysOpenForWritingIsShown(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		f := h.open("a.yaml", os.O_WRONLY|os.O_TRUNC)
		g := h.open("c.yaml", os.O_WRONLY|os.O_CREATE)
		h.during(9 * time.Second)
		h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1")
		h.log.Reset()
		h.during(2 * time.Second)
		h.wantDocuments("a.yaml writing 1/1", "b.yaml ok 1/1", "c.yaml writing 0/0")
		h.wantRoutes(netA+" eth0", netB+" eth0")
		if again := h.look(); again < time.Second {
			t.Errorf("looks again after %v", again)
		}
		h.wantLog()
		h.must(f.Close())
		h.must(g.Close())
		h.during(3 * time.Second)
		h.wantDocuments("a.yaml error 0/1: a.yaml: "+emptyE, "b.yaml ok 1/1", "c.yaml error 0/0: c.yaml: "+emptyE)
		h.wantRoutes(netA+" eth0", netB+" eth0")
		h.wantState(true, "c.yaml: "+emptyE)
	})
}

func TestTheLeaseIsGivenBackAtOnce(t *testing.T) {
	h := &harness{t: t, dir: t.TempDir()}
	h.write("a.yaml", "x")
	f := h.open("a.yaml", os.O_RDONLY)
	defer func() { _ = f.Close() }()
	for range 3 {
		if openForWriting(f) {
			t.Fatal("open for writing, although nobody has it open")
		}
		w := h.open("a.yaml", os.O_WRONLY) // waits for the end of a lease
		if !openForWriting(f) {
			t.Fatal("not open for writing, although somebody has it open")
		}
		h.must(w.Close())
	}
}

// With real events and real time: no version but the first and the last is seen.
func TestRunWaitsForAWriter(t *testing.T) {
	r := running(t, t.TempDir(), nil)
	r.write("b.yaml", routeTo(netB, "eth0"))
	r.write("a.yaml", metric(1))
	r.become(netA+" eth0", netB+" eth0")
	for range r.cursor.Next(r.db.ReadTxn()) {
	}
	f := r.open("a.yaml", os.O_WRONLY|os.O_TRUNC)
	late := time.After(700 * time.Millisecond)
	_, _, changed, _ := r.routes.GetWatch(r.db.ReadTxn(), r.byKey(netA))
	select {
	case <-changed:
		t.Error("the row was changed while its file was open for writing")
	case <-late:
	}
	r.put(f, routeTo(netA, "eth1"))
	r.must(f.Close())
	r.become(netA+" eth1", netB+" eth0")
	r.wantChanges("+" + netA)
}

func (h *harness) byKey(destination string) statedb.Query[route] {
	return statedb.NewIndex("key", func(r route) string { return r.Destination.String() }).Query(destination)
}
