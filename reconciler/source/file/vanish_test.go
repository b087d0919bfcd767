package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// memory is a Memory for tests.
type memory struct {
	inForce bool
	err     error
}

func (m *memory) InForce() bool { return m.inForce }

func (m *memory) SetInForce(inForce bool) error {
	if m.err == nil {
		m.inForce = inForce
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
				h.write(name, "")
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

func TestDocumentsThatAreBackEndTheWait(t *testing.T) {
	for how, all := range vanish {
		t.Run(how, func(t *testing.T) {
			files, want := manyFiles(3)
			bubble(t, files, func(t *testing.T, h *harness) {
				h.settle()
				all(h, files)
				h.settle()
				// One is back, with another version: it counts, and so does the absence of the others.
				h.write("f0001.yaml", routeTo("10.100.101.0/24", "eth1"))
				h.settle()
				h.wantRoutes("10.100.101.0/24 eth1")
				h.wantState(true, "")
				for name, text := range files {
					h.write(name, text)
				}
				h.settle()
				h.wantRoutes(want...)
			})
		})
	}
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
		h.wantRoutes(netA + " eth0")
		h.wantDocuments("a.yaml error 1/1: a.yaml:" + badFieldE)
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
		h.write("f0001.yaml", "")
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
		h.source.recalled = true
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
