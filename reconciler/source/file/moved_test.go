package file

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// movedWhy is the error of a file that is gone while others may declare its rows.
func movedWhy(name, because string, rows int) string {
	return fmt.Sprintf("%s: no longer declares all its rows, which may be in another file: %s; %s until that ends or this is approved (approve documents)",
		name, because, map[bool]string{true: "1 row stays in force", false: fmt.Sprintf("%d rows stay in force", rows)}[rows == 1])
}

// moves are the ways in which the documents of a.yaml can move to b.yaml, which is then refused or being written.
var moves = map[string]struct {
	move    func(h *harness)
	because string
}{
	"renamed, with a mistake": {func(h *harness) { h.write("b.yaml", badField); h.remove("a.yaml") }, "b.yaml is refused"},
	"renamed, long after": {func(h *harness) {
		h.write("b.yaml", badField)
		h.settle()
		<-time.After(time.Hour)
		h.remove("a.yaml")
	}, "b.yaml is refused"},
	"renamed, cut off": {func(h *harness) { h.remove("a.yaml"); h.write("b.yaml", "kind: rou") }, "b.yaml is refused"},
	"removed, then made with a mode that is refused": {func(h *harness) {
		h.remove("a.yaml")
		h.look()
		h.write("b.yaml", routeTo(netA, "eth0"))
		h.must(os.Chmod(h.path("b.yaml"), 0o666))
	}, "b.yaml is refused"},
	"merged into a file, with a mistake": {func(h *harness) {
		h.write("b.yaml", "kind: set\nname: other\n")
		h.settle()
		h.write("b.yaml", documents("kind: set\nname: other\n", routeTo(netA, "eth0"), badField))
		h.remove("a.yaml")
	}, "b.yaml is refused"},
	"emptied, and renamed with a mistake": {func(h *harness) { h.write("b.yaml", badField); h.write("a.yaml", "# moved\n") }, "b.yaml is refused"},
	"removed, then written slowly": {func(h *harness) {
		h.remove("a.yaml")
		h.look()
		h.beginWriting("b.yaml")
	}, "b.yaml is being written"},
	"removed, then copied by rsync": {func(h *harness) {
		h.remove("a.yaml")
		h.look()
		h.beginWriting(".b.yaml.x4Gh7K")
	}, ".b.yaml.x4Gh7K is being written"},
}

// eachMove tests how a.yaml has moved, with rows for netA and netC, while z.yaml stays.
func eachMove(t *testing.T, test func(t *testing.T, h *harness, because string)) {
	for name, c := range moves {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0")), "z.yaml": "kind: set\nname: rest\n"}
			bubble(t, files, func(t *testing.T, h *harness) {
				h.settle()
				c.move(h)
				h.during(3 * time.Second)
				for range h.cursor.Next(h.db.ReadTxn()) {
				}
				test(t, h, c.because)
			})
		})
	}
}

// beginWriting opens a file for writing, until the test ends.
func (h *harness) beginWriting(name string) {
	f := h.open(name, os.O_WRONLY|os.O_CREATE)
	h.t.Cleanup(func() { _ = f.Close() })
}

// movedTo is what becomes of b.yaml in the end.
func (h *harness) movedTo(text string) {
	h.t.Helper()
	for _, name := range []string{"b.yaml", ".b.yaml.x4Gh7K"} {
		if err := os.Remove(h.path(name)); err != nil && !isNotExist(err) {
			h.t.Fatal(err)
		}
	}
	if text != "" {
		h.write("b.yaml", text)
	}
	h.during(3 * time.Second)
}

func (h *harness) wantError(file, want string) {
	h.t.Helper()
	d, _, _ := h.source.Documents().Get(h.db.ReadTxn(), byFile().Query(h.path(file)))
	if got := h.relative(d.Error); d.State != Error || got != want {
		h.t.Errorf("%s is in state %s with error\n%s\nwant\n%s", file, d.State, got, want)
	}
}

func (h *harness) wantRow(destination string, want bool) {
	h.t.Helper()
	if _, _, is := h.routes.Get(h.db.ReadTxn(), h.byKey(destination)); is != want {
		h.t.Errorf("%s is in force: %v, want %v", destination, is, want)
	}
}

func TestRowsOfAFileStayWhileTheyMayBeInOneThatIsNotRead(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, because string) {
		h.wantRow(netA, true)
		h.wantRow(netC, true)
		h.wantError("a.yaml", movedWhy("a.yaml", because, 2))
		// What they still declare is taken over without a delete in between, and the rest goes.
		h.movedTo(routeTo(netA, "eth1"))
		h.wantRoutes(netA + " eth1")
		h.wantChanges("+"+netA, "-"+netC)
		h.wantDocumentsOf("b.yaml ok 1/1", "z.yaml ok 1/1")
		h.wantState(true, "")
	})
}

// wantDocumentsOf is wantDocuments without files that are empty.
func (h *harness) wantDocumentsOf(want ...string) {
	h.t.Helper()
	if _, err := os.Stat(h.path("a.yaml")); err == nil {
		want = append([]string{"a.yaml ok 0/0"}, want...)
	}
	h.wantDocuments(want...)
}

func TestRowsOfAFileGoWhenNoOtherMayDeclareThem(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, _ string) {
		h.movedTo("")
		h.wantRoutes()
		h.wantDocumentsOf("z.yaml ok 1/1")
		h.wantState(true, "")
	})
}

// An editor may remove and write again what is refused.
func TestRowsOfAFileStayWhileTheOtherIsReplaced(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, _ string) {
		_ = os.Remove(h.path("b.yaml"))
		_ = os.Remove(h.path(".b.yaml.x4Gh7K"))
		h.look()
		<-time.After(h.source.config.Settle / 2)
		h.look()
		h.movedTo(documents(routeTo(netA, "eth0"), routeTo(netC, "eth1")))
		h.wantRoutes(netA+" eth0", netC+" eth1")
		h.wantChanges("+" + netC)
	})
}

// However long ago the directory was read, the other file has as much time.
func TestRowsOfAFileStayWhileTheOtherIsReplacedLongAfter(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, _ string) {
		<-time.After(time.Hour)
		_ = os.Remove(h.path("b.yaml"))
		_ = os.Remove(h.path(".b.yaml.x4Gh7K"))
		h.during(h.source.config.Settle * 2 / 3)
		h.movedTo(documents(routeTo(netA, "eth0"), routeTo(netC, "eth1")))
		h.wantRoutes(netA+" eth0", netC+" eth1")
		h.wantChanges("+" + netC)
	})
}

// A file that was just made is empty for a moment, also if its writer opens it again.
func TestRowsOfAFileStayWhileANewFileIsEmpty(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "z.yaml": routeTo(netC, "eth0")}, func(_ *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.write("b.yaml", "")
		for range h.cursor.Next(h.db.ReadTxn()) {
		}
		h.during(900 * time.Millisecond)
		h.write("b.yaml", routeTo(netA, "eth0"))
		h.settle()
		h.wantChanges()
		h.wantRoutes(netA+" eth0", netC+" eth0")
		h.write("b.yaml", "")
		h.during(3 * time.Second)
		h.wantRoutes(netA+" eth0", netC+" eth0")
		h.wantDocuments("b.yaml error 0/1: b.yaml: "+emptyE, "z.yaml ok 1/1")
		h.write("b.yaml", "# none\n")
		h.during(3 * time.Second)
		h.wantRoutes(netC + " eth0")
	})
}

func TestRowsOfAFileThatMayHaveMovedGoWhenThatIsApproved(t *testing.T) {
	eachMove(t, func(t *testing.T, h *harness, _ string) {
		approved, err := h.approve()
		if err != nil || approved.Withdrawn != 2 {
			t.Errorf("approved %+v, %v", approved, err)
		}
		h.wantRow(netA, false)
		h.wantRow(netC, false)
		h.during(time.Second)
	})
}

func TestAFileThatMayHaveMovedIsBack(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, because string) {
		h.write("a.yaml", documents(routeTo(netA, "eth0"), routeTo(netB, "eth0")))
		h.during(3 * time.Second)
		if d, _, _ := h.source.Documents().Get(h.db.ReadTxn(), byFile().Query(h.path("b.yaml"))); strings.Contains(because, "written") || strings.Contains(d.Error, "unknown kind") || strings.Contains(d.Error, "cannot be read") {
			h.wantChanges("+" + netB) // it may declare netC
		} else {
			h.wantChanges("-"+netC, "+"+netB)
		}
		h.remove("a.yaml")
		h.during(3 * time.Second)
		h.wantChanges()
		h.movedTo("")
		h.wantRoutes()
	})
}

// That a whole directory is lost needs an approval, whatever happened to its files before.
func TestADirectoryIsLostAfterAFileMayHaveMoved(t *testing.T) {
	eachMove(t, func(_ *testing.T, h *harness, _ string) {
		h.remove("z.yaml")
		h.during(3 * time.Second)
		h.movedTo("")
		h.wantRow(netA, true)
		h.wantState(true, ".: the directory no longer has any documents; "+staying(h.routes.Len(h.db.ReadTxn())+h.sets.Len(h.db.ReadTxn())))
	})
}

func TestARestartDoesNotLoseWhatMayHaveMoved(t *testing.T) {
	eachMove(t, func(t *testing.T, h *harness, _ string) {
		m := &memory{}
		next := &harness{fixture: newFixture(t), t: t, dir: h.dir}
		var err error
		next.source, err = New(next.config(t, h.dir))
		next.must(err)
		next.restarted(m)
		if _, err := os.Stat(h.path("b.yaml")); err != nil {
			return // a source that starts does not know of what rsync copies
		}
		next.during(3 * time.Second)
		if why := next.routes.Sources(next.db.ReadTxn())[0].Incomplete; why == "" {
			t.Error("the source is complete")
		}
		if m.inForce.Lost {
			t.Error("a loss of the directory is remembered")
		}
		h.movedTo(routeTo(netA, "eth0"))
		next.during(3 * time.Second)
		next.wantRoutes(netA + " eth0")
		next.wantState(true, "")
	})
}

// What was refused already at the start holds up no removal.
func TestAFileThatWasRefusedAtTheStartHoldsNoRows(t *testing.T) {
	files := map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": badField, "z.yaml": "kind: set\nname: rest\n"}
	bubble(t, files, func(_ *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.settle()
		h.wantRoutes()
		h.write("c.yaml", routeTo(netC, "eth0"))
		h.settle()
		h.write("b.yaml", badField+"# changed\n")
		h.remove("c.yaml")
		h.settle()
		h.wantRoutes(netC + " eth0")
	})
}

// A file that is written in place is read a moment after one that replaces another.
func TestDocumentsMoveToAFileThatIsStillBeingWritten(t *testing.T) {
	files := map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0")), "b.yaml": routeTo(netB, "eth0")}
	for _, writing := range []time.Duration{0, 3 * time.Second, 30 * time.Second} {
		t.Run(writing.String(), func(t *testing.T) {
			bubble(t, files, func(_ *testing.T, h *harness) {
				h.settle()
				for range h.cursor.Next(h.db.ReadTxn()) {
				}
				f := h.open("b.yaml", os.O_WRONLY)
				_, err := f.WriteString(documents(routeTo(netB, "eth0"), routeTo(netC, "eth0")))
				h.must(err)
				if writing == 0 {
					h.must(f.Close())
				}
				h.write("a.yaml", routeTo(netA, "eth0"))
				h.during(writing)
				h.wantRoutes(netA+" eth0", netB+" eth0", netC+" eth0")
				_ = f.Close()
				h.settle()
				h.wantRoutes(netA+" eth0", netB+" eth0", netC+" eth0")
				h.wantChanges()
				h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 2/2")
			})
		})
	}
}

// What was refused already at the start may have been copied there before.
func TestARowStaysThatWasCopiedBeforeTheStartWithAMistake(t *testing.T) {
	files := map[string]string{
		"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0")), "b.yaml": routeTo(netC, "eth0") + "gatway: 192.0.2.1\n",
		"c.yaml": routeTo(netB, "eth0"), "z.yaml": "kind: set\nname: rest\n",
	}
	bubble(t, files, func(_ *testing.T, h *harness) {
		h.settle()
		h.write("a.yaml", routeTo(netA, "eth0"))
		h.remove("c.yaml")
		h.settle()
		h.wantRoutes(netA+" eth0", netC+" eth0")
		h.wantError("a.yaml", movedWhy("a.yaml", "b.yaml is refused", 1))
	})
}

// What was declared before the start by a file that is refused since may move to another one that is.
func TestASourceIsIncompleteUntilAllFilesWereValidOnce(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": badField, "b.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		h.settle()
		h.wantState(true, "a.yaml:"+badFieldE)
		h.write("b.yaml", documents(routeTo(netA, "eth0"), badField))
		h.settle()
		h.write("a.yaml", "# moved\n")
		h.settle()
		h.wantState(true, "b.yaml:"+strings.Replace(badFieldE, "3:1", "7:1", 1))
		h.wantRoutes(netA + " eth0")
		h.write("b.yaml", routeTo(netA, "eth0"))
		h.settle()
		h.wantState(true, "")
		h.write("b.yaml", documents(routeTo(netA, "eth0"), badField))
		h.settle()
		h.wantState(true, "")
	})
}

// A document that is removed from a file is meant, unless one that is refused may declare it.
func TestADocumentOfAFileThatStaysGoesWhileAnotherIsRefused(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0"))}, func(_ *testing.T, h *harness) {
		h.settle()
		h.write("b.yaml", badField)
		h.settle()
		h.write("a.yaml", routeTo(netA, "eth0"))
		h.settle()
		h.wantRoutes(netA + " eth0")
	})
}

// Documents may move out of a file that stays.
func TestRowsOfAFileThatStaysDoSoWhileTheyMayBeInAnother(t *testing.T) {
	files := map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0")), "z.yaml": "kind: set\nname: rest\n"}
	many := make([]string, maxClaims+1)
	for i := range many {
		many[i] = badField
	}
	for name, bad := range map[string]string{
		"another field is wrong":    documents("kind: set\nname: other\n", routeTo(netC, "eth0")+"gatway: 192.0.2.1\n"),
		"the key is wrong":          "kind: route\ndestination: 10.3.0.0/166\ndevice: eth0\n",
		"the key is missing":        "kind: route\ndestinatoin: 10.3.0.0/16\ndevice: eth0\n",
		"the kind is wrong":         "kind: rout\ndestination: 10.3.0.0/16\ndevice: eth0\n",
		"another is wrong":          documents(badField, routeTo(netC, "eth0")),
		"the key is given twice":    "kind: route\ndestination: 10.77.0.0/16\ndestination: 10.3.0.0/16\ndevice: eth0\n",
		"many are wrong":            documents(many...),
		"cut off":                   "kind: route\ndestination: [",
		"cut off, and valid":        "kind: route\ndestination: 10.3.0.0/16\ndevice: eth",
		"cut off, and wrong before": documents(badField) + "---\nkind: route\ndestination: 10.3.0.0/1",
		"a list":                    "- kind: route\n  destination: 10.3.0.0/16\n",
		"empty":                     "",
	} {
		move := func(h *harness) {
			h.settle()
			h.write("b.yaml", bad)
			h.write("a.yaml", routeTo(netA, "eth0"))
			for _, again := range []string{"", "# again\n"} {
				h.write("a.yaml", routeTo(netA, "eth0")+again)
				h.settle()
				h.wantRoutes(netA+" eth0", netC+" eth0")
				h.wantError("a.yaml", movedWhy("a.yaml", "b.yaml is refused", 1))
			}
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, files, func(_ *testing.T, h *harness) {
				move(h)
				h.write("b.yaml", routeTo(netC, "eth1"))
				h.settle()
				h.wantRoutes(netA+" eth0", netC+" eth1")
				h.wantDocuments("a.yaml ok 1/1", "b.yaml ok 1/1", "z.yaml ok 1/1")
			})
			bubble(t, files, func(_ *testing.T, h *harness) {
				move(h)
				h.write("b.yaml", routeTo(netB, "eth1"))
				h.settle()
				h.wantRoutes(netA+" eth0", netB+" eth1")
			})
			bubble(t, files, func(_ *testing.T, h *harness) { // it is refused, but declares another one
				move(h)
				h.write("b.yaml", badField)
				h.settle()
				h.wantRoutes(netA + " eth0")
				h.wantDocuments("a.yaml ok 1/1", "b.yaml error 1/0: b.yaml:"+badFieldE, "z.yaml ok 1/1")
			})
			bubble(t, files, func(t *testing.T, h *harness) {
				move(h)
				if approved, err := h.approve(); err != nil || approved.Withdrawn != 1 {
					t.Errorf("approved %+v, %v", approved, err)
				}
				h.wantRoutes(netA + " eth0")
			})
			bubble(t, files, func(_ *testing.T, h *harness) {
				move(h)
				h.remove("a.yaml")
				h.remove("z.yaml")
				h.settle()
				h.remove("b.yaml")
				h.settle()
				h.wantRoutes(netA+" eth0", netC+" eth0")
			})
		})
	}
}

// What a filter drops cannot be in another file.
func TestRowsThatAFilterDropsGoWhileAFileIsRefused(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth1"))}, func(_ *testing.T, h *harness) {
		h.settle()
		h.write("b.yaml", badField)
		h.settle()
		h.must(SetFilter(h.source, "route", on("eth0")))
		h.settle()
		h.wantRoutes(netA + " eth0")
	})
}

// An editor has its own temporary files open for as long as it runs.
func TestTemporaryFilesOfEditorsHoldNoRows(t *testing.T) {
	files := map[string]string{"a.yaml": routeTo(netA, "eth0"), "z.yaml": "kind: set\nname: rest\n"}
	bubble(t, files, func(_ *testing.T, h *harness) {
		h.write(".z.yaml.x4Gh7K", "left over\n")
		for _, name := range []string{".z.yaml.swp", "z.yaml~", "#z.yaml#", "log.txt", ".log.x4Gh7K"} {
			h.beginWriting(name)
		}
		h.settle()
		h.remove("a.yaml")
		h.settle()
		h.wantRoutes()
	})
}

// Files are written, broken, moved and removed at random. While one is refused, no row goes with its file, and afterwards
// exactly those are in force that the files declare.
func TestFilesThatMoveAtRandomLoseNoRow(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { moveAtRandom(t, rand.New(rand.NewPCG(seed, 0))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func moveAtRandom(t *testing.T, choose *rand.Rand) {
	h := newHarness(t, map[string]string{"z.yaml": "kind: set\nname: rest\n"})
	h.settle()
	names := []string{"a.yaml", "b.yaml", "c.yaml"}
	good := map[string][]string{} // what the newest good version of each file declares, also of those that have gone since one was refused
	broken := map[string]bool{}
	next := 0
	fresh := func() []string {
		destinations := []string{}
		for range 1 + choose.IntN(3) {
			destinations = append(destinations, fmt.Sprintf("10.%d.%d.0/24", next/200, next%200))
			next++
		}
		return destinations
	}
	for range 30 {
		name, other := names[choose.IntN(3)], names[choose.IntN(3)]
		_, err := os.Stat(h.path(name))
		switch choose.IntN(5) {
		case 0, 1:
			good[name] = fresh()
			h.write(name, routesTo(good[name]))
			delete(broken, name)
		case 2:
			h.write(name, badField)
			broken[name] = true
		case 3:
			if err == nil && other != name { // moved, with a mistake
				h.write(other, badField)
				broken[other] = true
				h.remove(name)
				delete(broken, name)
			}
		case 4:
			if err == nil {
				h.remove(name)
				delete(broken, name)
			}
		}
		if broken[name] && choose.IntN(2) == 0 { // what was good has been read
			h.during(time.Duration(choose.IntN(400)) * time.Millisecond)
			continue
		}
		h.settle()
		if len(broken) == 0 {
			for _, name := range names {
				if _, err := os.Stat(h.path(name)); err != nil {
					delete(good, name)
				}
			}
		}
		var want []string
		for _, destinations := range good {
			want = append(want, destinations...)
		}
		h.wantDestinations(want)
	}
}

func routesTo(destinations []string) string {
	all := make([]string, len(destinations))
	for i, destination := range destinations {
		all[i] = routeTo(destination, "eth0")
	}
	return documents(all...)
}

func (h *harness) wantDestinations(want []string) {
	h.t.Helper()
	got := map[string]bool{}
	for r := range h.routes.All(h.db.ReadTxn()) {
		got[r.Destination.String()] = true
	}
	slices.Sort(want)
	if is := slices.Sorted(maps.Keys(got)); !slices.Equal(is, want) {
		h.t.Errorf("in force are %q\nwant %q", is, want)
	}
}

// Empty text is refused, and says nothing of which row the document declares, even where a row may have an empty key.
func TestARowStaysWhileItMayBeInADocumentWithAnEmptyKey(t *testing.T) {
	configured(t, map[string]string{"a.yaml": documents(routeTo(netA, "eth0"), routeTo(netC, "eth0"))},
		func(r *KindConfig[route], _ *KindConfig[*set]) { r.Normalized = nil },
		func(_ *testing.T, h *harness) {
			h.settle()
			h.write("b.yaml", "kind: route\ndestination: \"\"\ndevice: eth0\n")
			h.write("a.yaml", routeTo(netA, "eth0"))
			h.settle()
			h.wantRoutes(netA+" eth0", netC+" eth0")
			h.wantError("a.yaml", movedWhy("a.yaml", "b.yaml is refused", 1))
		})
}
