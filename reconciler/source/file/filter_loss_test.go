package file

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A document that is dropped keeps no key: another one may have it.
func TestDroppedDocumentsHaveNoKey(t *testing.T) {
	files := map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netB, "eth0")), "b.yaml": routeTo(netA, "eth1")}
	filtered(t, files, on("eth0"), func(_ *testing.T, h *harness) {
		h.settle()
		h.wantRoutes(netA+" eth0", netB+" eth0")
		h.wantDocuments("a.yaml ok 2/2", "b.yaml ok 1/0")
		// With both there is a conflict: neither file is taken over, and the row stays.
		h.setFilter(nil)
		h.wantRoutes(netA+" eth0", netB+" eth0")
		twice := func(own, other string, rows int) string {
			return fmt.Sprintf(`%s duplicate %s: %s:2:14: field "destination": route "10.1.0.0/16" is also declared at %s:2:14; neither takes effect`,
				own, map[bool]string{true: "2/2", false: "1/0"}[rows == 2], own, other)
		}
		h.wantDocuments(twice("a.yaml", "b.yaml", 2), twice("b.yaml", "a.yaml", 0))
		h.wantState(true, `a.yaml:2:14: field "destination": route "10.1.0.0/16" is also declared at b.yaml:2:14; neither takes effect (and of 1 more)`)
		// The other one takes over, without a delete in between.
		h.wantChanges("+"+netA, "+"+netB)
		h.setFilter(on("eth1"))
		h.wantRoutes(netA + " eth1")
		h.wantChanges("-"+netB, "+"+netA)
		h.wantState(true, "")
	})
}

// Only when a file can be read as a whole the new filter applies to its rows.
func TestAFileThatCannotBeTakenOverKeepsItsRows(t *testing.T) {
	for name, test := range map[string]struct {
		breaks, mends func(h *harness)
		incomplete    string
	}{
		"bad": {
			func(h *harness) { h.write("a.yaml", badField); h.settle() },
			func(h *harness) { h.write("a.yaml", mixed["a.yaml"]) },
			"a.yaml:" + badFieldE,
		},
		"being written": {
			func(h *harness) {
				h.source.writing = func(f *os.File) bool { return strings.HasSuffix(f.Name(), "a.yaml") }
			},
			func(h *harness) { h.source.writing = func(*os.File) bool { return false } },
			"a.yaml: has not been applied since a filter was changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			filtered(t, mixed, on("eth0"), func(_ *testing.T, h *harness) {
				h.settle()
				h.wantChanges("+"+netA, "+"+netC)
				test.breaks(h)
				h.must(SetFilter(h.source, "route", on("eth1", "eth2")))
				h.look()
				h.wantChanges("-"+netC, "+"+netD)
				h.wantRoutes(netA+" eth0", netD+" eth2")
				h.wantState(true, test.incomplete)
				test.mends(h)
				h.settle()
				h.wantRoutes(netB+" eth1", netD+" eth2")
				h.wantState(true, "")
			})
		})
	}
}

func TestAFilterAppliesWhenTheDirectoryCanBeListedAgain(t *testing.T) {
	bubble(t, mixed, func(_ *testing.T, h *harness) {
		h.settle()
		list := h.source.readDir
		h.source.readDir = func(string) ([]os.DirEntry, os.FileInfo, error) { return nil, nil, os.ErrPermission }
		h.settle()
		h.setFilter(on("eth2"))
		h.wantRoutes(netA+" eth0", netB+" eth1", netC+" eth0", netD+" eth2")
		h.source.readDir = list
		h.settle()
		h.wantRoutes(netD + " eth2")
		h.wantState(true, "")
	})
}

// That a filter drops everything is no loss of the directory.
func TestAFilterThatDropsEverythingNeedsNoApproval(t *testing.T) {
	for when, early := range map[string]bool{"at the start": true, "later": false} {
		t.Run(when, func(t *testing.T) {
			bubble(t, mixed, func(t *testing.T, h *harness) {
				m := &memory{inForce: InForce{Files: len(mixed)}}
				h.restarted(m)
				if !early {
					h.settle()
				}
				h.setFilter(on())
				h.wantRoutes()
				h.wantState(true, "")
				if m.inForce.Files > 0 {
					t.Error("rows are remembered as in force")
				}
				for name := range mixed {
					h.remove(name)
				}
				h.settle()
				h.wantState(true, "")
				h.wantDocuments()
			})
		})
	}
}

// A directory that is lost is told from a filter that drops most of it.
func TestALostDirectoryLeavesTheRowsThatTheFilterKept(t *testing.T) {
	for how, all := range vanish {
		t.Run(how, func(t *testing.T) {
			files, _ := manyFiles(20)
			files["kept.yaml"] = routeTo(netA, "eth1")
			filtered(t, files, on("eth1"), func(_ *testing.T, h *harness) {
				h.settle()
				all(h, files)
				h.settle()
				h.settle()
				h.wantRoutes(netA + " eth1")
				h.wantState(true, ".: the directory no longer has any documents; "+staying(1))
			})
		})
	}
}

// The last row that is kept may go while documents are there that are dropped.
func TestTheLastRowOfManyDocumentsGoes(t *testing.T) {
	filtered(t, mixed, on("eth2"), func(_ *testing.T, h *harness) {
		h.settle()
		h.wantRoutes(netD + " eth2")
		h.remove("c.yaml")
		h.settle()
		h.wantRoutes()
		h.wantState(true, "")
	})
}
