package file

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestApprovalIsOfTheDirectoryAsItIs(t *testing.T) {
	for how, all := range vanish {
		t.Run(how, func(t *testing.T) {
			files, _ := manyFiles(3)
			bubble(t, files, func(t *testing.T, h *harness) {
				h.settle()
				if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
					t.Errorf("approve, all being well: %v", err)
				}
				all(h, files)
				h.settle()
				h.log.Reset()
				approved, err := h.approve()
				if err != nil || approved.Dir != h.dir || approved.Rows != 0 || approved.Withdrawn != 3 {
					t.Errorf("approved %+v, %v", approved, err)
				}
				h.wantRoutes()
				h.wantState(true, "")
				if !strings.Contains(h.log.String(), `msg="Directory of documents approved manually`) {
					t.Errorf("log: %s", h.log)
				}
				if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
					t.Errorf("approve again: %v", err)
				}
				h.write("f0000.yaml", files["f0000.yaml"])
				h.settle()
				h.wantState(true, "")
				h.remove("f0000.yaml")
				h.settle()
				h.wantState(true, ".: the directory no longer has any documents; "+staying(1))
			})
		})
	}
}

func TestDocumentsThatAreBackAtTheApprovalAreNotRemoved(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.must(os.Rename(h.path("a.yaml"), h.path("a.away")))
		h.settle()
		h.must(os.Rename(h.path("a.away"), h.path("a.yaml")))
		if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
			t.Errorf("approve: %v", err)
		}
		h.wantRoutes(netA + " eth0")
		h.wantState(true, "")
	})
}

func TestADirectoryThatIsGoneCanBeApproved(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.must(os.Rename(h.dir, h.dir+".away"))
		h.settle()
		if approved, err := h.approve(); err != nil || approved.Withdrawn != 1 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.settle()
		h.wantRoutes()
		h.wantState(true, "")
		h.wantDocuments(". error 0/0: .: the directory cannot be listed: no such file or directory")
		if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
			t.Errorf("approve again: %v", err)
		}
		h.must(os.Rename(h.dir+".away", h.dir))
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantDocuments("a.yaml ok 1/1")
	})
}

func TestADirectoryThatCannotBeReadCannotBeApproved(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.source.readDir = func(string) ([]os.DirEntry, os.FileInfo, error) { return nil, nil, os.ErrPermission }
		h.settle()
		_, err := h.approve()
		if err == nil || errors.Is(err, ErrNothingToApprove) || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("approve: %v", err)
		}
		h.wantRoutes(netA + " eth0")
	})
}

func TestAnEmptyDirectoryAtARestartIsIncomplete(t *testing.T) {
	remembered := &memory{}
	files, want := manyFiles(3)
	bubble(t, files, func(t *testing.T, h *harness) {
		h.source.config.Memory = remembered
		h.settle()
		h.wantRoutes(want...)
		if remembered.inForce.Files != 3 {
			t.Fatal("rows in force are not remembered")
		}
	})
	const why = ".: the directory has no documents, but rows were in force in the previous run; " +
		"none of them is removed until documents are back or this is approved (approve documents)"
	restart := func(files map[string]string, test func(t *testing.T, h *harness)) {
		bubble(t, files, func(t *testing.T, h *harness) {
			h.restarted(remembered)
			test(t, h)
		})
	}
	for name, files := range map[string]map[string]string{"no file": nil, "empty file": {"a.yaml": "# nothing\n"}} {
		t.Run(name, func(*testing.T) {
			restart(files, func(t *testing.T, h *harness) {
				h.settle()
				h.wantState(true, why)
				if remembered.inForce.Files == 0 {
					t.Error("that rows were in force is forgotten")
				}
			})
		})
	}
	// A broken file is reason enough, and its removal does not end the wait.
	restart(map[string]string{"a.yaml": badField}, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantState(true, "a.yaml:"+badFieldE)
		h.remove("a.yaml")
		h.settle()
		h.wantState(true, why)
	})
	restart(nil, func(t *testing.T, h *harness) {
		h.settle()
		if _, err := h.approve(); err != nil {
			t.Error(err)
		}
		h.wantState(true, "")
		if remembered.inForce.Files > 0 {
			t.Error("what was approved is still remembered")
		}
	})
	restart(nil, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantState(true, "")
	})
}

// restarted makes the source one with a memory of an earlier run.
func (h *harness) restarted(m *memory) {
	h.source.config.Memory = m
	h.source.recall(m.InForce())
}

func TestAMemoryThatFailsIsLoggedOnce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		m := &memory{err: errors.New("disk full")}
		h.source.config.Memory = m
		h.settle()
		h.settle()
		if n := strings.Count(h.log.String(), "disk full"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		h.wantRoutes(netA + " eth0")
		m.err = nil
		h.settle()
		if m.inForce.Files != 1 {
			t.Error("it is not tried again")
		}
	})
}

func TestApproveAsksTheRunThatIsGoingOn(t *testing.T) {
	r := running(t, t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := r.source.Approve(ctx); !errors.Is(err, ErrNothingToApprove) {
		t.Errorf("approve, all being well: %v", err)
	}
	r.write("a.yaml", routeTo(netA, "eth0"))
	r.become(netA + " eth0")
	r.remove("a.yaml")
	r.told(r.dir, "no longer has any documents")
	if approved, err := r.source.Approve(ctx); err != nil || approved.Withdrawn != 1 {
		t.Errorf("approved %+v, %v", approved, err)
	}
	r.become()
}

func TestApproveFailsWhenTheSourceDoesNotRun(t *testing.T) {
	f := newFixture(t)
	s, err := New(f.config(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Approve(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("approve before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Approve(ctx); !errors.Is(err, ErrNotRunning) {
		t.Errorf("approve after Run: %v", err)
	}
}
