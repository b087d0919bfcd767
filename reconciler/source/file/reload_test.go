package file

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func plainLogger(w *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func bubble(t *testing.T, files map[string]string, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness(t, files)) })
}

const (
	netA, netB, netC = "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"

	badField  = "kind: route\ndestination: 10.9.0.0/16\ngatway: 192.0.2.1\n"
	badFieldE = `3:1: field "gatway": unknown field of kind route; did you mean "gateway"? The fields are: destination, device, gateway, metric, table, up`
)

func TestFirstListingInitializesEveryTable(t *testing.T) {
	bubble(t, map[string]string{
		"a.yaml": documents(routeTo(netA, "eth0"), "kind: set\nname: s\n"), "b.yml": routeTo(netB, "eth1"),
		".hidden.yaml": "x", "#a.yaml#": "x", "a.yaml~": "x", "a.yaml.swp": "x", "note.txt": "x", ".#a.yaml": "x", "empty.yaml": "# nothing\n",
	}, func(t *testing.T, h *harness) {
		h.must(os.Mkdir(h.path("sub.yaml"), 0o700))
		h.wantState(false, "")
		h.settle()
		h.wantState(true, "")
		h.wantRoutes(netA+" eth0", netB+" eth1")
		h.wantDocuments("a.yaml ok 2/2", "b.yml ok 1/1", "empty.yaml ok 0/0")
		h.wantLog(`level=INFO msg="Documents applied" files=3 rows=3`)
	})
}

func TestFollowsChangesOfFiles(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantChanges("+"+netA, "+"+netB)

		h.write("a.yaml", documents(routeTo(netA, "eth1"), routeTo(netC, "eth0")))
		h.remove("b.yaml")
		h.settle()
		h.wantRoutes(netA+" eth1", netC+" eth0")
		h.wantChanges("-"+netB, "+"+netA, "+"+netC)
		h.wantDocuments("a.yaml ok 2/2")

		h.write("a.yaml", documents("# said otherwise\n"+routeTo(netA, "'eth1'"), routeTo(netC, "eth0")))
		h.settle()
		h.wantChanges()
	})
}

func TestUnchangedFilesWriteNothing(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "s.yaml": "kind: set\nname: s\n", "bad.yaml": badField}, func(t *testing.T, h *harness) {
		h.settle()
		routes, sets, files := h.routes.Revision(h.db.ReadTxn()), h.sets.Revision(h.db.ReadTxn()), h.source.documents.Revision(h.db.ReadTxn())
		before := h.db.ReadTxn()
		h.settle()
		after := h.db.ReadTxn()
		if h.routes.Revision(after) != routes || h.sets.Revision(after) != sets || h.source.documents.Revision(after) != files {
			t.Error("a table was written")
		}
		if before != after {
			t.Error("there was a transaction")
		}
	})
}

func TestStatusesOfUnchangedRowsSurviveARewrite(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		var done reconciler.Status
		h.must(done.UnmarshalJSON([]byte(`{"kind":"done"}`)))
		h.must(h.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			for r, rev := range h.routes.All(txn) {
				if _, err := h.routes.Amend(txn, r, rev, func(r route) route { return r.WithStatus(done) }); err != nil {
					return err
				}
			}
			return nil
		}, h.routes))
		h.write("a.yaml", "# comment\n"+routeTo(netA, "eth0"))
		h.settle()
		for r := range h.routes.All(h.db.ReadTxn()) {
			if r.Status.Kind() != reconciler.Done {
				t.Errorf("status is %v", r.Status)
			}
		}
	})
}

func TestRowsOfOthersAreLeftAlone(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "z.yaml": "kind: set\nname: rest\n"}, func(t *testing.T, h *harness) {
		h.must(h.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := h.routes.Insert(txn, route{Device: "foreign"})
			return err
		}, h.routes))
		h.settle()
		h.remove("a.yaml")
		h.settle()
		h.wantRoutes("invalid Prefix foreign")
	})
}

// The row W10: break one of ten, after the start.
func TestOneOfTenBreaksAfterStart(t *testing.T) {
	files := map[string]string{}
	var want []string
	for i := range 10 {
		files[fmt.Sprintf("f%d.yaml", i)] = routeTo(fmt.Sprintf("10.%d.0.0/16", i), "eth0")
		want = append(want, fmt.Sprintf("10.%d.0.0/16 eth0", i))
	}
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		h.log.Reset()
		h.cursor.Next(h.db.ReadTxn())(func(statedb.Change[route]) bool { return true })

		h.write("f3.yaml", documents(routeTo("10.3.0.0/16", "eth7"), badField))
		h.settle()
		h.wantRoutes(want...)
		h.wantState(true, "")
		h.wantChanges()
		h.wantLog(`level=ERROR msg="Document refused" file=f3.yaml line=7 column=1 field=gatway error="` +
			strings.ReplaceAll(strings.SplitN(badFieldE, ": ", 3)[2], `"`, `\"`) + `"`)

		// The others go on.
		h.write("f4.yaml", routeTo("10.4.0.0/16", "eth1"))
		h.write("f8.yaml", routeTo("10.80.0.0/16", "eth0"))
		h.settle()
		want[4], want[8] = "10.4.0.0/16 eth1", "10.80.0.0/16 eth0"
		h.wantRoutes(want...)
		h.wantState(true, "")
		h.wantLog(`level=INFO msg="Documents applied" files=10 rows=10`)

		h.write("f3.yaml", routeTo("10.3.0.0/16", "eth7"))
		h.settle()
		want[3] = "10.3.0.0/16 eth7"
		h.wantRoutes(want...)
		h.wantLog(`level=INFO msg="Documents are valid again" file=f3.yaml`, `level=INFO msg="Documents applied" files=10 rows=10`)
	})
}

// The row W10: break one of ten, before the start.
func TestOneOfTenIsBrokenAtStart(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("f%d.yaml", i)] = routeTo(fmt.Sprintf("10.%d.0.0/16", i), "eth0")
	}
	files["f3.yaml"] = badField
	bubble(t, files, func(t *testing.T, h *harness) {
		h.settle()
		h.wantState(true, "f3.yaml:"+badFieldE)
		if n := h.routes.Len(h.db.ReadTxn()); n != 9 {
			t.Errorf("%d rows, want 9", n)
		}

		// Updates and deletes go on, and it stays incomplete.
		h.write("f1.yaml", routeTo("10.1.0.0/16", "eth1"))
		h.remove("f2.yaml")
		h.settle()
		h.write("f8.yaml", "kind: nothing\n") // was good once
		h.settle()
		h.wantState(true, "f3.yaml:"+badFieldE)
		if n := h.routes.Len(h.db.ReadTxn()); n != 8 {
			t.Errorf("%d rows, want 8", n)
		}

		h.write("f3.yaml", routeTo("10.3.0.0/16", "eth0"))
		h.settle()
		h.wantState(true, "")
		if n := h.routes.Len(h.db.ReadTxn()); n != 9 {
			t.Errorf("%d rows, want 9", n)
		}
	})
}

// A file that was broken at the start is replaced, as editors do it. Between its two versions the source does not become complete,
// or its rows would be deleted as orphans.
func TestABrokenFileThatIsReplacedLeavesTheSourceIncompleteUntilThen(t *testing.T) {
	for how, begin := range map[string]func(h *harness){
		"removed":   func(h *harness) { h.remove("a.yaml") },
		"truncated": func(h *harness) { h.write("a.yaml", "") },
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, map[string]string{"a.yaml": badField, "b.yaml": routeTo("10.1.0.0/16", "eth0")}, func(_ *testing.T, h *harness) {
				h.settle()
				begin(h)
				h.look()
				h.wantState(true, "a.yaml:"+badFieldE)
				h.write("a.yaml", routeTo("10.2.0.0/16", "eth0"))
				h.settle()
				h.wantState(true, "")
				h.wantRoutes("10.1.0.0/16 eth0", "10.2.0.0/16 eth0")
			})
		})
	}
}

func TestABrokenFileThatIsDeletedMakesTheSourceComplete(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": badField, "b.yaml": "- x\n"}, func(t *testing.T, h *harness) {
		h.settle()
		h.wantState(true, "a.yaml:"+badFieldE+" (and of 1 more)")
		h.wantDocuments("a.yaml error 1/0: a.yaml:"+badFieldE, "b.yaml error 1/0: b.yaml:1:1: found a list, expected a document with a kind and fields")
		h.log.Reset()
		h.remove("a.yaml")
		h.remove("b.yaml")
		h.settle()
		h.wantState(true, "")
		h.wantDocuments()
		h.wantLog(`level=INFO msg="Refused documents are gone" file=a.yaml`, `level=INFO msg="Refused documents are gone" file=b.yaml`)
	})
}

func TestLossesCountOnlyWhenTheyLast(t *testing.T) {
	for name, half := range map[string]string{"bad": "kind: route\ndesti", "empty": "", "no documents": "# none\n", "absent": "absent"} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"a.yaml": routeTo(netA, "eth0"), "z.yaml": "kind: set\nname: rest\n"}
			bubble(t, files, func(t *testing.T, h *harness) {
				damage := func() {
					if half == "absent" {
						h.remove("a.yaml")
					} else {
						h.write("a.yaml", half)
					}
				}
				h.settle()
				h.wantChanges("+" + netA)
				h.log.Reset()

				damage()
				if again := h.look(); again <= 0 || again > h.source.config.Settle {
					t.Errorf("looks again after %v", again)
				}
				h.wantDocuments("a.yaml ok 1/1", "z.yaml ok 1/1")
				h.write("a.yaml", routeTo(netA, "eth1"))
				h.settle()
				h.wantChanges("+" + netA)
				h.wantLog(`level=INFO msg="Documents applied" files=2 rows=2`)

				damage()
				h.settle()
				if half == "kind: route\ndesti" || half == "" {
					h.wantRoutes(netA + " eth1")
				} else {
					h.wantRoutes()
					h.wantChanges("-" + netA)
				}
			})
		})
	}
}

func TestANewFileThatIsBadForAMomentIsNotReported(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.settle()
		h.log.Reset()
		h.write("a.yaml", "kind: rou")
		h.look()
		h.wantDocuments()
		h.wantState(true, "")
		h.write("a.yaml", routeTo(netA, "eth0"))
		h.settle()
		h.wantDocuments("a.yaml ok 1/1")
		h.wantLog(`level=INFO msg="Documents applied" files=1 rows=1`)
	})
}

func TestAnUnreadableFileKeepsItsLastGoodVersion(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0"), "b.yaml": routeTo(netB, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.source.config.MaxFileSize = 100
		h.write("a.yaml", routeTo(netA, strings.Repeat("x", 100)))
		h.remove("b.yaml")
		h.must(os.Symlink("nowhere", h.path("b.yaml")))
		h.settle()
		h.wantRoutes(netA+" eth0", netB+" eth0")
		h.wantDocuments("a.yaml error 0/1: a.yaml: cannot be read: it is larger than 100 bytes",
			"b.yaml error 0/1: b.yaml: cannot be read: a symbolic link to a file that does not exist")
		h.wantState(true, "")
	})
}

func TestDirectoryThatVanishesKeepsItsRows(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.settle()
		h.log.Reset()
		h.must(os.Rename(h.dir, h.dir+".away"))
		h.look()
		h.wantState(true, "")
		h.settle()
		h.wantRoutes(netA + " eth0")
		const why = "the directory cannot be listed: no such file or directory; " +
			"1 row stays in force until documents are back or this is approved (approve documents)"
		h.wantState(true, ".: "+why)
		h.wantDocuments(". error 0/0: .: "+why, "a.yaml ok 1/1")
		h.wantLog(`level=ERROR msg="Document refused" file=. error="` + why + `"`)

		h.must(os.Rename(h.dir+".away", h.dir))
		h.settle()
		h.wantState(true, "")
		h.wantDocuments("a.yaml ok 1/1")
		h.wantChanges("+" + netA)
	})
}

func TestDirectoryThatVanishesBeforeTheFirstListing(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.must(os.Rename(h.dir, h.dir+".away"))
		h.settle()
		h.wantState(false, ".: the directory cannot be listed: no such file or directory")
		h.must(os.Rename(h.dir+".away", h.dir))
		h.settle()
		h.wantState(true, "")
		h.wantRoutes(netA + " eth0")
	})
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	f := newFixture(t)
	missing := t.TempDir() + "/missing"
	_, err := New(f.config(t, missing))
	if err == nil || !isNotExist(err) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing directory: %v", err)
	}
	for want, change := range map[string]func(*Config){
		`source of documents: DB is not set`:                    func(c *Config) { c.DB = nil },
		`source of documents: no directory is set`:              func(c *Config) { c.Dir = "" },
		`source of documents: a kind is nil`:                    func(c *Config) { c.Kinds = append(c.Kinds, nil) },
		`source of documents: kind "route" is registered twice`: func(c *Config) { c.Kinds = append(c.Kinds, c.Kinds[0]) },
		`source of documents: kinds "route" and "road" have the same table "routes"`: func(c *Config) {
			road, err := NewKind(KindConfig[route]{Name: "road", Table: f.routes})
			if err != nil {
				t.Fatal(err)
			}
			c.Kinds = append(c.Kinds, road)
		},
	} {
		c := f.config(t, t.TempDir())
		change(&c)
		if _, err := New(c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// An agent with many documents looks at them every half minute.
func TestALookThatFindsNothingNewTakesNoMemoryForEachDocument(t *testing.T) {
	const documents = 1000
	var b strings.Builder
	for i := range documents {
		fmt.Fprintf(&b, "---\nkind: route\ndestination: 10.0.%d.%d/32\ngateway: 192.0.2.1\n", i>>8, i&0xff)
	}
	h := newHarness(t, map[string]string{"a.yaml": b.String(), "b.yaml": "kind: route\ndestination: 10.1.0.0/32\ngateway: 192.0.2.1\n"})
	h.settle()
	if n := h.routes.Len(h.db.ReadTxn()); n != documents+1 {
		t.Fatalf("%d rows", n)
	}
	bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.look()
		}
	}).AllocedBytesPerOp()
	if read := int64(2 * b.Len()); bytes > read+20_000 {
		t.Errorf("a look takes %d bytes, to read the files is %d of them at most", bytes, read)
	}
	h.remove("b.yaml")
	h.settle()
	if n := h.routes.Len(h.db.ReadTxn()); n != documents {
		t.Errorf("%d rows when a file is gone", n)
	}
}
