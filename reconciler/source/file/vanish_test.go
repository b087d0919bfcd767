package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"
)

// memory is a Memory for tests.
type memory struct {
	inForce InForce
	err     error
}

func (m *memory) InForce() InForce { return m.inForce }

func (m *memory) SetInForce(now InForce) error {
	if m.err == nil {
		m.inForce = now
	}
	return m.err
}

// approve approves what waits for it, as Run does.
func (h *harness) approve() (Approved, error) {
	h.t.Helper()
	return h.source.approveNow(context.Background(), unwatched{}, &listing{approved: true})
}

// manyFiles returns n documents of their own files.
func manyFiles(n int) (files map[string]string, routes []string) {
	files = map[string]string{}
	for i := range n {
		destination := fmt.Sprintf("10.%d.%d.0/24", 100+i/100, 100+i%100)
		files[fmt.Sprintf("f%04d.yaml", i)] = routeTo(destination, "eth0")
		routes = append(routes, destination+" eth0")
	}
	return files, routes
}

// vanish are the ways in which all documents can go at once.
var vanish = map[string]func(h *harness, names map[string]string){
	"removed": func(h *harness, names map[string]string) {
		for name := range names {
			h.remove(name)
		}
	},
	"empty": func(h *harness, names map[string]string) {
		for name := range names {
			h.write(name, "# nothing\n")
		}
	},
	"removed or empty": func(h *harness, names map[string]string) {
		for name := range names {
			if name == "f0000.yaml" {
				h.write(name, "# none\n")
			} else {
				h.remove(name)
			}
		}
	},
}

// The row W11: with few rows and with many.
func TestADirectoryWithoutDocumentsLeavesRowsInForce(t *testing.T) {
	for how, all := range vanish {
		for _, n := range []int{1, 3, 300} {
			t.Run(fmt.Sprintf("%s, %d", how, n), func(t *testing.T) {
				files, want := manyFiles(n)
				bubble(t, files, func(t *testing.T, h *harness) {
					h.settle()
					h.wantRoutes(want...)
					for range h.cursor.Next(h.db.ReadTxn()) {
					}
					all(h, files)
					h.settle()
					h.settle()
					h.wantRoutes(want...)
					h.wantChanges()
					h.wantState(true, fmt.Sprintf(".: the directory no longer has any documents; %s", staying(n)))
				})
			})
		}
	}
}

func TestFilesThatGoOneAfterTheOtherGoTogether(t *testing.T) {
	files, want := manyFiles(5)
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		for i := range 5 {
			h.remove(fmt.Sprintf("f%04d.yaml", i))
			h.look()
			<-time.After(h.source.config.Settle * 2 / 3)
			h.look()
		}
		h.settle()
		h.wantRoutes(want...)
		h.wantState(true, ".: the directory no longer has any documents; "+staying(5))
	})
}

func staying(n int) string {
	if n == 1 {
		return "1 row stays in force until documents are back or this is approved (approve documents)"
	}
	return fmt.Sprintf("%d rows stay in force until documents are back or this is approved (approve documents)", n)
}

// lost is why tables are incomplete while some files are back.
func lost(back, all, rows int) string {
	return fmt.Sprintf(".: the directory had lost its documents, and %d of %d files are back; %s", back, all, staying(rows))
}

func TestRowsOfLostFilesStayUntilEachFileIsBack(t *testing.T) {
	ways := maps.Clone(vanish)
	ways["directory gone"] = func(h *harness, _ map[string]string) {
		h.must(os.RemoveAll(h.dir))
		h.settle()
		h.must(os.Mkdir(h.dir, 0o700))
	}
	for how, all := range ways {
		t.Run(how, func(t *testing.T) {
			files, _ := manyFiles(3)
			bubble(t, files, func(t *testing.T, h *harness) {
				m := &memory{}
				h.source.config.Memory = m
				h.settle()
				all(h, files)
				h.settle()
				if want := (InForce{Files: 3, Lost: true, Dir: h.dir}); m.inForce != want {
					t.Errorf("stored %+v, want %+v", m.inForce, want)
				}
				// One is back, with another version.
				h.write("f0001.yaml", routeTo("10.100.101.0/24", "eth1"))
				h.settle()
				h.wantRoutes("10.100.100.0/24 eth0", "10.100.101.0/24 eth1", "10.100.102.0/24 eth0")
				h.wantState(true, lost(1, 3, 2))
				h.write("f0000.yaml", routeTo("10.100.103.0/24", "eth0"))
				h.settle()
				h.wantRoutes("10.100.101.0/24 eth1", "10.100.102.0/24 eth0", "10.100.103.0/24 eth0")
				h.wantState(true, lost(2, 3, 1))
				// What is back can be changed and removed.
				h.remove("f0001.yaml")
				h.settle()
				h.wantRoutes("10.100.102.0/24 eth0", "10.100.103.0/24 eth0")
				h.wantState(true, lost(1, 2, 1))
				h.write("f0002.yaml", files["f0002.yaml"])
				h.settle()
				h.wantRoutes("10.100.102.0/24 eth0", "10.100.103.0/24 eth0")
				h.wantState(true, "")
				if want := (InForce{Files: 2, Dir: h.dir}); m.inForce != want {
					t.Errorf("stored %+v, want %+v", m.inForce, want)
				}
			})
		})
	}
}

func TestRowsOfLostFilesThatOthersDeclareAreTheirs(t *testing.T) {
	files, want := manyFiles(3)
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		vanish["removed"](h, files)
		h.settle()
		h.write("new.yaml", documents(files["f0000.yaml"], files["f0002.yaml"]))
		h.settle()
		h.wantRoutes(want...)
		h.wantState(true, lost(1, 2, 1))
		h.write("another.yaml", documents(files["f0001.yaml"]))
		h.settle()
		h.wantRoutes(want...)
		h.wantState(true, "")
		h.wantDocuments("another.yaml ok 1/1", "new.yaml ok 2/2")
		h.remove("new.yaml")
		h.settle()
		h.wantRoutes(want[1])
	})
}

// The rows of a version that is refused stay in force, and are lost with the others.
func TestRowsThatOnlyARefusedVersionDeclaresAreLostWithTheOthers(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netB, "eth0")), "b.yaml": routeTo(netC, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo(netA, "eth0"))
		h.write("c.yaml", documents(routeTo(netB, "eth0"), routeTo(netC, "eth1")))
		h.settle()
		all := []string{netA + " eth0", netB + " eth0", netC + " eth0"}
		h.wantRoutes(all...)
		for _, name := range []string{"a.yaml", "b.yaml", "c.yaml"} {
			h.remove(name)
		}
		h.settle()
		h.wantRoutes(all...)
		h.wantState(true, ".: the directory no longer has any documents; "+staying(3))
		h.write("b.yaml", routeTo(netC, "eth0"))
		h.settle()
		h.wantRoutes(all...)
		if approved, err := h.approve(); err != nil || approved.Withdrawn != 2 || approved.Rows != 1 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.wantRoutes(netC + " eth0")
		h.wantState(true, "")
	})
}

func TestARestartDoesNotEndTheWaitForLostFiles(t *testing.T) {
	m := &memory{inForce: InForce{Files: 3}}
	files, want := manyFiles(3)
	const untilApproved = " until documents are back or this is approved (approve documents)"
	restart := func(files map[string]string, test func(h *harness)) {
		t.Helper()
		bubble(t, files, func(_ *testing.T, h *harness) {
			m.inForce.Dir = h.dir // each has another one
			h.restarted(m)
			h.settle()
			test(h)
		})
	}
	const some = ".: the directory had lost its documents, and %d of 3 files are back; no row of the others is removed" + untilApproved
	restart(nil, func(h *harness) {
		h.wantState(true, ".: the directory has no documents, but rows were in force in the previous run; none of them is removed"+untilApproved)
		h.write("f0000.yaml", files["f0000.yaml"])
		h.settle()
		h.wantState(true, fmt.Sprintf(some, 1))
		h.wantRoutes(want[0])
	})
	restart(map[string]string{"f0000.yaml": files["f0000.yaml"]}, func(h *harness) {
		h.wantState(true, fmt.Sprintf(some, 1))
		h.write("f0001.yaml", files["f0001.yaml"])
		h.settle()
		h.wantState(true, fmt.Sprintf(some, 2))
		h.write("f0002.yaml", files["f0002.yaml"])
		h.settle()
		h.wantState(true, "")
	})
	// Files that were removed while the agent did not run, one of several, are meant.
	restart(map[string]string{"f0000.yaml": files["f0000.yaml"]}, func(h *harness) { h.wantState(true, "") })
	m.inForce = InForce{Files: 3, Lost: true}
	restart(map[string]string{"f0000.yaml": files["f0000.yaml"]}, func(h *harness) {
		h.wantState(true, fmt.Sprintf(some, 1))
		if approved, err := h.approve(); err != nil || approved.Rows != 1 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.wantState(true, "")
		if want := (InForce{Files: 1, Dir: h.dir}); m.inForce != want {
			t.Errorf("stored %+v, want %+v", m.inForce, want)
		}
	})
}

func TestAnotherDirectoryAtTheNextStartIsAskedAbout(t *testing.T) {
	m := &memory{inForce: InForce{Files: 1, Dir: "/other"}}
	files := map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0")}
	restart := func(test func(h *harness)) {
		t.Helper()
		bubble(t, files, func(_ *testing.T, h *harness) {
			m.inForce.Dir = cmp.Or(m.inForce.Dir, h.dir)
			h.restarted(m)
			h.settle()
			test(h)
		})
	}
	const why = ".: in the previous run, documents were in /other; none of their rows is removed until this directory is approved (approve documents)"
	for range 2 { // nor does a restart end it
		restart(func(h *harness) {
			h.wantState(true, why)
			h.wantRoutes(netA+" eth0", netB+" eth0")
			h.remove("b.yaml")
			h.settle()
			h.wantState(true, why)
			h.wantRoutes(netA + " eth0") // what is here can be changed and removed
			if want := (InForce{Files: 1, Dir: "/other"}); m.inForce != want {
				t.Errorf("stored %+v, want %+v", m.inForce, want)
			}
		})
	}
	restart(func(h *harness) {
		if approved, err := h.approve(); err != nil || approved.Rows != 2 || approved.Withdrawn != 0 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.wantState(true, "")
		if want := (InForce{Files: 2, Dir: h.dir}); m.inForce != want {
			t.Errorf("stored %+v, want %+v", m.inForce, want)
		}
		if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
			t.Errorf("approved twice: %v", err)
		}
	})
	m.inForce.Dir = "" // the same one: see above
	restart(func(h *harness) { h.wantState(true, "") })
	m.inForce = InForce{Dir: "/other"} // it declared nothing
	restart(func(h *harness) { h.wantState(true, "") })
}

func TestAFileThatIsBackBrokenDefendsItsRows(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.remove("b.yaml")
		h.settle()
		h.wantRoutes(netA+" eth0", netB+" eth0")
		h.wantDocuments(". error 0/0: .: the directory no longer has any documents; "+staying(2), "a.yaml ok 1/1", "b.yaml ok 1/1")
		h.write("a.yaml", badField)
		h.settle()
		h.wantRoutes(netA+" eth0", netB+" eth0")
		h.wantDocuments(". error 0/0: "+lost(1, 2, 1), "a.yaml error 1/1: a.yaml:"+badFieldE, "b.yaml ok 1/1")
		h.write("b.yaml", routeTo(netB, "eth0"))
		h.settle()
		h.wantDocuments("a.yaml error 1/1: a.yaml:"+badFieldE, "b.yaml ok 1/1")
	})
}

func TestALastFileThatIsRenamedAndBrokenLeavesRowsInForce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.write("b.yaml", badField)
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantState(true, ".: the directory no longer has any documents; "+staying(1))
		h.wantDocuments(". error 0/0: .: the directory no longer has any documents; "+staying(1), "a.yaml ok 1/1",
			"b.yaml error 1/0: b.yaml:"+badFieldE)
	})
}

func TestOneOfSeveralFilesMayGo(t *testing.T) {
	files, want := manyFiles(3)
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		h.remove("f0000.yaml")
		h.write("f0001.yaml", "# none\n")
		h.settle()
		h.wantRoutes(want[2])
		h.wantState(true, "")
	})
}

func TestAFirstStartWithAnEmptyDirectoryIsComplete(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.source.config.Memory = &memory{}
		h.settle()
		h.wantState(true, "")
		h.wantDocuments()
		if _, err := h.approve(); !errors.Is(err, ErrNothingToApprove) {
			t.Errorf("approve: %v", err)
		}
	})
}

func TestADirectoryOnAnotherDeviceLeavesRowsInForce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		device := uint64(1)
		h.source.deviceOf = func(os.FileInfo) uint64 { return device }
		h.settle()
		const why = ".: the directory is on another device than before: it was unmounted, or something is mounted over it; "

		// What is there now does not count.
		device = 2
		h.write("a.yaml", routeTo(netB, "eth0"))
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantState(true, why+staying(1))
		h.wantDocuments(". error 0/0: "+why+staying(1), "a.yaml ok 1/1")

		device = 1
		h.settle()
		h.wantRoutes(netB + " eth0")
		h.wantState(true, "")

		device = 2
		h.write("a.yaml", routeTo(netC, "eth0"))
		h.settle()
		h.wantRoutes(netB + " eth0")
		if approved, err := h.approve(); err != nil || approved.Rows != 1 || approved.Withdrawn != 1 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.settle()
		h.wantRoutes(netC + " eth0")
		h.wantState(true, "")

		// From now on that is the device that is expected; or another one with the same files.
		device = 3
		h.settle()
		h.wantState(true, "")
		h.write("a.yaml", routeTo(netB, "eth0"))
		h.settle()
		h.wantRoutes(netB + " eth0")
		device = 1
		h.write("a.yaml", routeTo(netC, "eth0"))
		h.settle()
		h.wantState(true, why+staying(1))
	})
}

func TestDocumentsThatAreMountedAfterTheStartAreTaken(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.source.recalled.Files = 1
		device := uint64(1)
		h.source.deviceOf = func(os.FileInfo) uint64 { return device }
		h.settle()
		device = 2
		h.write("a.yaml", routeTo(netA, "eth0"))
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantState(true, "")
	})
}

// What is done after a file was removed must not be in force before its removal is: a link that is removed last would be deleted
// together with its routes, before it is known that those are to be removed, too.
func TestWhatFollowsALossIsNotInForceBeforeIt(t *testing.T) {
	files := map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0"), "c.yaml": routeTo(netC, "eth0")}
	bubble(t, files, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+"+netA, "+"+netB, "+"+netC)
		h.remove("b.yaml")
		h.look()
		h.write("a.yaml", "# nothing\n"+routeTo(netA, "eth1"))
		h.write("new.yaml", routeTo("10.4.0.0/16", "eth0"))
		time.Sleep(fileQuiet)
		h.look()
		h.wantRoutes(netA+" eth0", netB+" eth0", netC+" eth0", "10.4.0.0/16 eth0") // what is new harms nothing
		h.settle()
		h.wantRoutes(netA+" eth1", netC+" eth0", "10.4.0.0/16 eth0")
		h.wantChanges("+10.4.0.0/16", "-"+netB, "+"+netA)
	})
}

func TestLossesThatNeverEndHoldUpNobody(t *testing.T) {
	files, _ := manyFiles(200)
	files["a.yaml"] = routeTo(netA, "eth0")
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo(netA, "eth1"))
		began := time.Now()
		for i := 0; time.Since(began) < 15*h.source.config.Settle; i++ {
			h.remove(fmt.Sprintf("f%04d.yaml", i))
			time.Sleep(h.source.config.Settle / 2)
			h.look()
			is, _, _ := h.routes.Get(h.db.ReadTxn(), h.byKey(netA))
			if late := time.Since(began) > 11*h.source.config.Settle; late != (is.Device == "eth1") {
				t.Fatalf("after %v: the device is %s", time.Since(began), is.Device)
			}
		}
	})
}
