package link

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

func TestOneEndOfAVethTakesTheOtherAlong(t *testing.T) {
	remove(t, "v0")
	target := newTarget(t, t.TempDir())
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	end := Link{Name: "v1", Up: true}
	if _, err := target.Update(t.Context(), txn(), end); !errors.Is(err, syscall.ENODEV) ||
		err.Error() != "link v1 does not exist and has no type to create it with: no such device" {
		t.Errorf("Update of a link that does not exist: %v", err)
	}
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, end, true)
	wantObserved(t, target, "v0", "v1")
	first := mustLink(t, "v1").Attrs().Index

	nstest.IP(t, "link", "del", "v1")
	wantAbsent(t, "v0", "v1")
	wantObserved(t, target)
	wantDiff(
		t, target, row,
		reconciler.Change{Field: "type", Want: Veth},
		reconciler.Change{Field: "peer", Want: "v1"},
		reconciler.Change{Field: "up", Want: "true"},
	)
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, end, true)
	if again := mustLink(t, "v1").Attrs().Index; again == first {
		t.Fatalf("v1 has index %d again", again)
	}
	wantObserved(t, target, "v0", "v1")
	mustDelete(t, target, "v0")
	mustDelete(t, target, "v1")
	wantObserved(t, target)
}

func TestBothEndsOfAVethCannotBeCreated(t *testing.T) {
	remove(t, "v0")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, true)
	_, err := target.Update(t.Context(), txn(), Link{Name: "v1", Type: Veth, Peer: "v0"})
	const want = "link v1 is there already, as the other end of v0, which was created with its own row: leave out the type: "
	if !strings.HasPrefix(fmt.Sprint(err), want) || !errors.Is(err, ErrForeign) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}

func TestATakenNameOfAPeerIsNamed(t *testing.T) {
	nstest.Veth(t, "w0", "w1")
	target := newTarget(t, t.TempDir())
	_, err := target.Update(t.Context(), txn(), Link{Name: "v0", Type: Veth, Peer: "w1"})
	const want = "create veth v0: link w1 already exists: file exists"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.EEXIST) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	wantAbsent(t, "v0")
}

// A link that works is not removed for one that cannot be created.
func TestALinkThatCannotBeRecreatedStays(t *testing.T) {
	nstest.Veth(t, "w0", "w1")
	remove(t, "v0")
	target := newTarget(t, t.TempDir())
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	mustUpdate(t, target, row, true)
	before := mustLink(t, "v0").Attrs().Index
	for want, wrong := range map[string]Link{
		"link v0 stays as it is, because it cannot be recreated: create veth v0: link w1 already exists: file exists": {
			Name: "v0", Type: Veth, Peer: "w1", Up: true,
		},
		"set the MTU of link v0 to 1048576: ":                                     {Name: "v0", Type: Veth, Peer: "v1", Up: true, MTU: 1 << 20},
		"link v0 stays as it is, because it cannot be recreated: create bridge: ": {Name: "v0", Type: Bridge, MTU: 1 << 20},
	} {
		if _, err := target.Update(t.Context(), txn(), wrong); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("error\n%v\nexpected\n%s", err, want)
		}
		if now := mustLink(t, "v0").Attrs().Index; now != before {
			t.Errorf("after %q the link has index %d, want that of before, %d", want, now, before)
		}
	}
	if _, err := target.Diff(t.Context(), txn(), Link{Name: "v0", Type: Veth, Peer: "w1", Up: true}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("Diff: %v", err)
	}
	if links := nstest.IP(t, "link"); strings.Contains(links, "trial") {
		t.Errorf("a trial stays: %s", links)
	}
	mustUpdate(t, target, row, false)
}

// Of several rows, those that can be applied are.
func TestALinkThatCannotBeRecreatedHarmsNoOther(t *testing.T) {
	nstest.Veth(t, "w0", "w1")
	for _, name := range []string{"v0", "v2", "v4", "v6"} {
		remove(t, name)
	}
	target := newTarget(t, t.TempDir())
	rows := []Link{
		{Name: "v0", Type: Veth, Peer: "v1"},
		{Name: "v2", Type: Veth, Peer: "v3"},
		{Name: "v4", Type: Veth, Peer: "v5"},
		{Name: "v6", Type: Veth, Peer: "v7"},
	}
	before := map[string]int{}
	for _, row := range rows {
		mustUpdate(t, target, row, true)
		before[row.Name] = mustLink(t, row.Name).Attrs().Index
	}
	rows[1].Peer, rows[2].Peer, rows[3].Peer = "w1", "new", "new"
	var failed []string
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		if result.Err != nil {
			failed = append(failed, result.Err.Error())
		} else {
			mustUpdate(t, target, rows[i], false)
		}
	}
	want := []string{
		"link v2 stays as it is, because it cannot be recreated: create veth v2: link w1 already exists: file exists",
		"rename link v7 to new: file exists",
	}
	if !slices.Equal(failed, want) {
		t.Errorf("errors %q\nwant %q", failed, want)
	}
	for _, name := range []string{"v0", "v2", "v6"} {
		if now := mustLink(t, name).Attrs().Index; now != before[name] {
			t.Errorf("%s has index %d, want that of before, %d", name, now, before[name])
		}
	}
	mustDelete(t, target, "v0")
	wantAbsent(t, "v0")
}

// What others have on both ends stays.
func TestLinksThatOthersRenameGetTheirNamesBack(t *testing.T) {
	for name, c := range map[string]struct {
		row    Link
		rename []string // pairs of names
	}{
		"the other end":         {Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}, []string{"v1", "uplink"}},
		"the link":              {Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}, []string{"v0", "uplink"}},
		"both ends":             {Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}, []string{"v0", "tmp", "v1", "uplink"}},
		"a bridge":              {Link{Name: "br7", Type: Bridge, Up: true}, []string{"br7", "uplink"}},
		"a bridge that is down": {Link{Name: "br7", Type: Bridge}, []string{"br7", "uplink"}},
	} {
		for _, how := range []string{"asked", "with a mirror", "while stopped"} {
			t.Run(name+", "+how, func(t *testing.T) {
				remove(t, c.row.Name)
				dir := t.TempDir()
				target := newTarget(t, dir)
				if how == "with a mirror" {
					runMirror(t, target)
				}
				mustUpdate(t, target, c.row, true)
				index, end := mustLink(t, c.row.Name).Attrs().Index, 0
				if c.row.Peer != "" {
					end = mustLink(t, c.row.Peer).Attrs().Index
				}
				for i := 0; i < len(c.rename); i += 2 {
					nstest.IP(t, "link", "set", c.rename[i], "name", c.rename[i+1])
				}
				if how == "while stopped" {
					target = newTarget(t, dir)
					if err := target.Init(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				mustUpdate(t, target, c.row, true)
				mustUpdate(t, target, c.row, false)
				if now := mustLink(t, c.row.Name).Attrs().Index; now != index {
					t.Errorf("%s was made anew", c.row.Name)
				}
				if c.row.Peer != "" && mustLink(t, c.row.Peer).Attrs().Index != end {
					t.Errorf("%s was made anew", c.row.Peer)
				}
				mustDelete(t, target, c.row.Name)
			})
		}
	}
}

// If its document is removed as well, the link belongs to whoever has renamed it.
func TestALinkThatWasRenamedWhileStoppedIsNotTakenBackWithoutItsDocument(t *testing.T) {
	remove(t, "br7")
	dir := t.TempDir()
	row := Link{Name: "br7", Type: Bridge, Up: true}
	mustUpdate(t, newTarget(t, dir), row, true)
	nstest.IP(t, "link", "set", "br7", "name", "uplink")
	index := mustLink(t, "uplink").Attrs().Index
	target := newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantObserved(t, target, "br7") // so it is found to be an orphan
	mustDelete(t, target, "br7")
	wantNoRecords(t, dir)
	mustUpdate(t, target, row, true)
	if now := mustLink(t, "uplink").Attrs().Index; now != index {
		t.Errorf("the link has the index %d, and had %d", now, index)
	}
	mustDelete(t, target, "br7")
	remove(t, "uplink")
}

// Two links of others, both with rows, exchange their names: nothing is set down.
func TestLinksOfOthersThatExchangeTheirNamesStayUp(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	nstest.Veth(t, "w0", "w1")
	for _, name := range []string{"v0", "w0"} {
		nstest.IP(t, "link", "set", name, "down")
	}
	target := newTarget(t, t.TempDir())
	db := statedb.New()
	rows, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	target.rows = statedb.ReadOnly(rows)
	all := []Link{{Name: "v0", Up: true, MTU: 1400}, {Name: "w0", Up: true}}
	if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range all {
			if _, _, err := rows.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, rows); err != nil {
		t.Fatal(err)
	}
	update := func() {
		t.Helper()
		for _, result := range target.UpdateBatch(t.Context(), db.ReadTxn(), all) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
		}
	}
	update()
	for range 2 {
		nstest.IP(t, "addr", "add", "2001:db8::1/64", "dev", "v0", "nodad")
		for _, names := range [][2]string{{"v0", "tmp"}, {"w0", "v0"}, {"tmp", "w0"}} {
			nstest.IP(t, "link", "set", names[0], "name", names[1])
		}
		update()
		if shown := nstest.IP(t, "addr", "show", "dev", "w0"); !strings.Contains(shown, "2001:db8::1/64") {
			t.Errorf("w0 was set down: %s", shown)
		}
		if v, w := mustLink(t, "v0").Attrs().MTU, mustLink(t, "w0").Attrs().MTU; v != 1400 || w != 1500 {
			t.Errorf("v0 has MTU %d, w0 has %d, want 1400 and 1500", v, w)
		}
		nstest.IP(t, "addr", "del", "2001:db8::1/64", "dev", "w0")
	}
	for _, err := range target.DeleteBatch(t.Context(), db.ReadTxn(), all) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"v0", "w0"} {
		if attrs := mustLink(t, name).Attrs(); attrs.MTU != 1500 || attrs.Flags&net.FlagUp != 0 {
			t.Errorf("%s has MTU %d and flags %v, want those of before", name, attrs.MTU, attrs.Flags)
		}
	}
}

func TestLinksCanSwapTheirPeers(t *testing.T) {
	remove(t, "v0")
	remove(t, "v2")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, true)
	mustUpdate(t, target, Link{Name: "v2", Type: Veth, Peer: "v3"}, true)
	swapped := []Link{{Name: "v0", Type: Veth, Peer: "v3"}, {Name: "v2", Type: Veth, Peer: "v1"}}
	for i, result := range target.DiffBatch(t.Context(), txn(), swapped) {
		if result.Err != nil {
			t.Errorf("Diff of %s: %v", swapped[i].Name, result.Err)
		}
	}
	for i, result := range target.UpdateBatch(t.Context(), txn(), swapped) {
		if result.Err != nil {
			t.Errorf("Update of %s: %v", swapped[i].Name, result.Err)
		}
		mustUpdate(t, target, swapped[i], false)
	}
}

func TestAPeer(t *testing.T) {
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	t.Run("with another name is made again", func(t *testing.T) {
		remove(t, "v0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "set", "v1", "name", "other")
		wantDiff(t, target, row, reconciler.Change{Field: "recreate", Want: "true"}, reconciler.Change{Field: "peer", Is: "other", Want: "v1"})
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		wantAbsent(t, "other")
	})
	t.Run("in another network namespace is right", func(t *testing.T) {
		remove(t, "v0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		index := mustLink(t, "v1").Attrs().Index
		nstest.IP(t, "link", "set", "v1", "netns", strconv.Itoa(otherNamespace(t)))
		wantAbsent(t, "v1")
		// Numbers of links mean something in their own namespace only.
		remove(t, "w0")
		nstest.IP(t, "link", "add", "w0", "index", strconv.Itoa(index), "type", "bridge")
		mustUpdate(t, target, row, false)
		wantObserved(t, target, "v0")
	})
	t.Run("in another network namespace, while another link has its name", func(t *testing.T) {
		remove(t, "v0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "set", "v1", "netns", strconv.Itoa(otherNamespace(t)))
		wantAbsent(t, "v1")
		runMirror(t, target)
		remove(t, "v1")
		nstest.IP(t, "link", "add", "v1", "type", "bridge")
		_, err := target.Update(t.Context(), txn(), row)
		if err == nil || !strings.Contains(err.Error(), "the other end of v0 is in another network namespace, and v1 is another link") {
			t.Errorf("Update: %v", err)
		}
		view := target.mirror.Load().View(t.Context())
		changes := target.differences(view.Txn, view.Table, row)
		if len(changes) != 1 || changes[0].Field != "peer" {
			t.Errorf("differences: %v", changes)
		}
		mustLink(t, "v0") // it stays
	})
}

// otherNamespace starts a process in a new network namespace.
func otherNamespace(t *testing.T) (pid int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "cat")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Wait() // it was killed, or ended with its input
	})
	return command.Process.Pid
}

func TestAnExistingLinkIsRestored(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	nstest.IP(t, "link", "set", "v0", "down", "mtu", "1450")
	dir := t.TempDir()
	target := newTarget(t, dir)
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1400}, true)
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1300}, true)

	target = newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, target, "v0")
	if attrs := mustLink(t, "v0").Attrs(); attrs.MTU != 1450 || attrs.Flags&net.FlagUp != 0 {
		t.Errorf("MTU %d, flags %v", attrs.MTU, attrs.Flags)
	}
	wantNoRecords(t, dir)
}

func TestAnMTUThatIsNotOursAnyMoreIsRestoredOnce(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1400}, true)
	mustUpdate(t, target, Link{Name: "v0", Up: true}, true)
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1500 {
		t.Errorf("MTU %d", mtu)
	}
	nstest.IP(t, "link", "set", "v0", "mtu", "1350")
	mustUpdate(t, target, Link{Name: "v0", Up: true}, false)
	mustDelete(t, target, "v0")
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1350 {
		t.Errorf("MTU %d", mtu)
	}
}

func TestAnExistingLinkThatWasMadeAgainIsNotRestored(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	nstest.IP(t, "link", "set", "v0", "down")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Up: true}, true)
	nstest.IP(t, "link", "del", "v0")
	nstest.Veth(t, "v0", "v1")
	wantObserved(t, target)
	mustDelete(t, target, "v0")
	if mustLink(t, "v0").Attrs().Flags&net.FlagUp == 0 {
		t.Error("the new link was set down")
	}
}

// Somebody swaps the names of two links, of which one has a row.
func TestALinkThatWasRenamedIsRestored(t *testing.T) {
	swap := func(t *testing.T) {
		t.Helper()
		for _, names := range [][2]string{{"v0", "tmp"}, {"w0", "v0"}, {"tmp", "w0"}} {
			nstest.IP(t, "link", "set", names[0], "down")
			nstest.IP(t, "link", "set", names[0], "name", names[1])
		}
	}
	for name, then := range map[string]func(t *testing.T, target *Target){
		"its row is applied": func(t *testing.T, target *Target) {
			t.Helper()
			mustUpdate(t, target, Link{Name: "v0", MTU: 1400}, true)
			wantObserved(t, target, "v0")
			mustDelete(t, target, "v0")
		},
		"its row is deleted when no link has its name": func(t *testing.T, target *Target) {
			t.Helper()
			nstest.IP(t, "link", "set", "v0", "name", "tmp")
			mustDelete(t, target, "v0")
			nstest.IP(t, "link", "set", "tmp", "name", "v0")
		},
		"its row is deleted": func(t *testing.T, target *Target) {
			t.Helper()
			mustDelete(t, target, "v0")
		},
		"the agent starts": func(t *testing.T, target *Target) {
			t.Helper()
			if err := target.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantObserved(t, target, "v0")
			mustDelete(t, target, "v0")
		},
		"both have rows": func(t *testing.T, target *Target) {
			t.Helper()
			mustUpdate(t, target, Link{Name: "v0", MTU: 1400}, true)
			mustUpdate(t, target, Link{Name: "w0", MTU: 1450}, true)
			swap(t)
			mustUpdate(t, target, Link{Name: "w0", MTU: 1450}, true)
			mustUpdate(t, target, Link{Name: "v0", MTU: 1400}, true)
			wantObserved(t, target, "v0", "w0")
			swap(t)
			mustUpdate(t, target, Link{Name: "v0", MTU: 1400}, true)
			mustUpdate(t, target, Link{Name: "w0", MTU: 1450}, true)
			mustDelete(t, target, "v0")
			mustDelete(t, target, "w0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "v0", "v1")
			nstest.Veth(t, "w0", "w1")
			nstest.IP(t, "link", "set", "v0", "mtu", "1600")
			nstest.IP(t, "link", "set", "w0", "mtu", "1700")
			target := newTarget(t, t.TempDir())
			mustUpdate(t, target, Link{Name: "v0", MTU: 1400}, true)
			swap(t)
			then(t, target)
			for name, want := range map[string]int{"v0": 1700, "w0": 1600} {
				if mtu := mustLink(t, name).Attrs().MTU; mtu != want {
					t.Errorf("%s has MTU %d, want %d", name, mtu, want)
				}
			}
			wantObserved(t, target)
		})
	}
}

func TestALinkOfOursStaysOursWithoutItsType(t *testing.T) {
	remove(t, "br0")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "br0", Type: Bridge}, true)
	mustUpdate(t, target, Link{Name: "br0", Up: true}, true)
	mustDelete(t, target, "br0")
	wantAbsent(t, "br0")
}

func TestTheKernelsReasonIsGiven(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	_, err := target.Update(t.Context(), txn(), Link{Name: "v0", Up: true, MTU: 1 << 20})
	const want = "set the MTU of link v0 to 1048576: mtu greater than device maximum (invalid argument)"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}
