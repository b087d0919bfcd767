package address

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func TestLifetimesAsText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "forever": "forever", "3600s": "1h0m0s", "1h30m": "1h30m0s", "0s": "0s", "4294967294s": "1193046h28m14s",
	} {
		var l Lifetime
		if err := l.UnmarshalText([]byte(text)); err != nil || l.String() != want || l.IsZero() != (text == "") {
			t.Errorf("%q is %v, %v, expected %q", text, l, err, want)
		}
		var back Lifetime
		if err := back.UnmarshalText([]byte(l.String())); err != nil || back != l {
			t.Errorf("%v comes back as %v, %v", l, back, err)
		}
	}
	for _, text := range []string{"3600", "-1s", "1500ms", "4294967295s", "soon"} {
		var l Lifetime
		if err := l.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "expected forever or a duration in whole seconds") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWrongLifetimesAndScopesAreNamed(t *testing.T) {
	for _, c := range []struct {
		row   Address
		field string
	}{
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "0s", ""), "validLifetime"},
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", "61m"), "preferredLifetime"},
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", "forever"), "preferredLifetime"},
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "", "1h"), "preferredLifetime"},
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "", "0s"), ""},
		{with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", "1h"), ""},
		{with("e0", "2001:db8::1/64", rtnl.Scope{}, "", "1h"), ""},
		{with("e0", "2001:db8::1/64", rtnl.HostScope, "", ""), "scope"},
		{with("e0", "fe80::1/64", rtnl.GlobalScope, "", ""), "scope"},
		{with("e0", "fe80::1/64", rtnl.LinkScope, "", ""), ""},
		{with("lo", "::1/128", rtnl.HostScope, "", ""), ""},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if errors.As(err, &field); err == nil != (c.field == "") || c.field != "" && field.Field != c.field {
			t.Errorf("%+v: error %v, expected one about %q", c.row, err, c.field)
		}
	}
}

// each runs a test with a target that asks the kernel and with one that has a mirror.
func each(t *testing.T, test func(t *testing.T, dir string, target *Target)) {
	t.Helper()
	for name, mirrored := range map[string]bool{"without a mirror": false, "with a mirror": true} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			dir := t.TempDir()
			target := newTarget(t, dir)
			if mirrored {
				runMirror(t, target)
			}
			test(t, dir, target)
		})
	}
}

func wantChanges(t *testing.T, target *Target, row Address, want string) {
	t.Helper()
	changes, err := target.Diff(t.Context(), txn(), row)
	var texts []string
	for _, c := range changes {
		texts = append(texts, c.Field+" "+c.Is+" "+c.Want)
	}
	if got := strings.Join(texts, ", "); err != nil || got != want {
		t.Errorf("Diff = %q, %v, expected %q", got, err, want)
	}
}

// TestEachFieldOfAnAddressIsAppliedAndRepaired makes a row with a field, changes the
// field, and lets somebody change it in the kernel.
func TestEachFieldOfAnAddressIsAppliedAndRepaired(t *testing.T) {
	none := rtnl.Scope{}
	for name, c := range map[string]struct {
		row, changed Address
		drift        string // arguments of ip address replace; "-": the address is removed first
		told         string
	}{
		"scope": {
			with("e0", "192.0.2.1/24", rtnl.LinkScope, "", ""), with("e0", "192.0.2.1/24", rtnl.HostScope, "", ""),
			"- scope link", "scope link host",
		},
		"valid lifetime": {
			with("e0", "192.0.2.1/24", none, "1h", ""), with("e0", "192.0.2.1/24", none, "2h", "1h"),
			"valid_lft 50 preferred_lft 40", "validLifetime 50s 2h0m0s, preferredLifetime 40s 1h0m0s",
		},
		"preferred lifetime": {
			with("e0", "192.0.2.1/24", none, "", "0s"), with("e0", "192.0.2.1/24", none, "1h", "30m"),
			"valid_lft forever preferred_lft forever", "validLifetime forever 1h0m0s, preferredLifetime forever 30m0s",
		},
		"lifetimes left out": {
			with("e0", "192.0.2.1/24", none, "1h", "0s"), with("e0", "192.0.2.1/24", none, "", ""),
			"valid_lft 3600 preferred_lft 0", "validLifetime 1h0m0s forever, preferredLifetime 0s forever",
		},
		"lifetimes of IPv6": {
			with("e0", "2001:db8::1/64", none, "1h", ""), with("e0", "2001:db8::1/64", none, "forever", "1h"),
			"valid_lft 3600 preferred_lft 0", "validLifetime 1h0m0s forever, preferredLifetime 0s 1h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dir string, target *Target) {
				mustHold := func(target *Target, row Address) {
					t.Helper()
					if is, there := shown(t, row); !there || !is.isFor(row) || row.Scope != none && is.Scope != row.Scope.String() {
						t.Fatalf("there is %+v, %v", is, there)
					}
					wantChanges(t, target, row, "")
					mustUpdate(t, target, row, false)
				}
				mustUpdate(t, target, c.row, true)
				mustHold(target, c.row)
				mustUpdate(t, target, c.changed, true)
				mustHold(target, c.changed)

				arguments, removed := strings.CutPrefix(c.drift, "-")
				// Then it is others', and a target without a mirror cannot tell that from a change.
				c.changed.Adopt = removed || target.mirror.Load() == nil
				told := c.told
				if target.marks {
					told += ", protocol  79"
				}
				if removed {
					nstest.IP(t, "address", "del", c.row.Address.String(), "dev", "e0")
				}
				all := append([]string{"address", "replace", c.row.Address.String(), "dev", "e0"}, strings.Fields(arguments)...)
				nstest.IP(t, all...)
				wantChanges(t, target, c.changed, told)
				mustUpdate(t, target, c.changed, true)
				mustHold(target, c.changed)

				second := newTarget(t, dir) // another process
				mustHold(second, c.changed)
				wantObserved(t, second, c.row.Key().String())
				mustDelete(t, second, c.row)
				wantOn(t, "e0", c.row.Address.String(), false)
				wantNoRecords(t, dir)
			})
		})
	}
}

// TestLifetimesAreBegunAgainBeforeTheyEnd: at half of the one that ends first.
func TestLifetimesAreBegunAgainBeforeTheyEnd(t *testing.T) {
	each(t, func(t *testing.T, _ string, target *Target) {
		for _, address := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
			row := with("e0", address, rtnl.Scope{}, "1h", "6s")
			result, err := target.Update(t.Context(), txn(), row)
			if err != nil || result.Again <= 0 || result.Again > 3*time.Second {
				t.Fatalf("Update = %v, %v, expected again in 3s", result, err)
			}
			result, err = target.Update(t.Context(), txn(), row)
			if err != nil || result.Changed || result.Again <= 0 || result.Again > 3*time.Second {
				t.Fatalf("Update again = %v, %v, expected again in less than 3s", result, err)
			}
			again := time.NewTimer(result.Again)
			select {
			case <-again.C:
			case <-t.Context().Done():
			}
			changes, err := target.Diff(t.Context(), txn(), row)
			if err != nil || len(changes) != 2 || !strings.HasSuffix(changes[1].Is, " left") || changes[1].Want != "6s" {
				t.Errorf("Diff = %v, %v", changes, err)
			}
			mustUpdate(t, target, row, true)
			if is, there := shown(t, row); !there || is.Deprecated || is.Preferred < 5 {
				t.Errorf("there is %+v, %v", is, there)
			}
			mustUpdate(t, target, row, false)
			mustDelete(t, target, row)
		}
	})
}

// TestALifetimeThatHasEndedIsSeen: nobody has begun it again. What is left of lifetimes
// that go on changes nothing in the table.
// Some kernels give the route of the network a time of expiry in the past then.
func TestTheNetworkOfAnAddressThatGetsALifetimeStaysReachable(t *testing.T) {
	each(t, func(t *testing.T, _ string, target *Target) {
		mustUpdate(t, target, with("e0", "2001:db8::1/64", rtnl.Scope{}, "", ""), true)
		mustUpdate(t, target, with("e0", "2001:db8::1/64", rtnl.Scope{}, "2h", "1h"), true)
		if route := nstest.IP(t, "-6", "route", "show", "2001:db8::/64", "dev", "e0"); !strings.Contains(route, "expires 7") {
			t.Errorf("there is %q, expected a route that expires in two hours", route)
		}
	})
}

func TestALifetimeThatHasEndedIsSeen(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	row := with("e0", "192.0.2.1/24", rtnl.Scope{}, "6s", "3s")
	mustUpdate(t, target, row, true)
	find := func() (s Seen, there bool) {
		for s := range statedb.ReadOnly(seen).List(db.ReadTxn(), SeenByName.Query(row.Key())) {
			return s, true
		}
		return s, false
	}
	wait := func(what string, holds func(s Seen, there bool) bool) {
		t.Helper()
		deadline, look := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
		defer look.Stop()
		for {
			s, there := find()
			if holds(s, there) {
				return
			}
			select {
			case <-look.C:
			case <-deadline:
				t.Fatalf("%s: %+v, %v", what, s, there)
			}
		}
	}
	declared := func(s Seen, there bool) bool {
		return there && s.ValidLifetime == LifetimeOf(6) && s.PreferredLifetime == LifetimeOf(3) && s.Ours
	}
	wait("it is seen", declared)
	changed := statedb.ReadOnly(seen).Revision(db.ReadTxn())
	wantObserved(t, target, row.Key().String()) // lists it
	if s, there := find(); !declared(s, there) {
		t.Errorf("after a listing it is %+v", s)
	}
	if now := statedb.ReadOnly(seen).Revision(db.ReadTxn()); now != changed {
		t.Errorf("the table has changed by a listing: %d, %d", changed, now)
	}
	wait("it is deprecated", func(s Seen, there bool) bool { return there && s.PreferredLifetime == LifetimeOf(0) })
	if target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row) == nil {
		t.Error("a deprecated address does not differ")
	}
	wait("it is gone", func(_ Seen, there bool) bool { return !there })
	mustUpdate(t, target, row, true)
}

// The rows are not applied in the meantime, for example because a delete is held. After a restart, the lifetimes come from the records.
func TestAddressesWhoseRowsAreNotAppliedDoNotExpire(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	four := with("e0", "192.0.2.1/24", rtnl.Scope{}, "6s", "5s")
	six := with("e0", "2001:db8::1/64", rtnl.Scope{}, "6s", "5s")
	first := newTarget(t, dir)
	for _, row := range []Address{four, six} {
		mustUpdate(t, first, row, true)
	}
	target := newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	runMirror(t, target)
	nstest.IP(t, "address", "add", "192.0.2.9/24", "dev", "e0", "valid_lft", "6", "preferred_lft", "5") // of others
	renewer := target.NewRenewer(Mirror{})
	nstest.Run(t, renewer)
	waitUntil(t, func() bool { // it would be gone if it were not renewed
		_, there := shown(t, with("e0", "192.0.2.9/24", rtnl.Scope{}, "", ""))
		return !there
	})
	for _, row := range []Address{four, six} {
		if is, there := shown(t, row); !there || is.Deprecated || is.Valid == 0 {
			t.Errorf("there is %+v, %v", is, there)
		}
	}
	mustDelete(t, target, four)
	mustDelete(t, target, six)
	if _, there := shown(t, four); there {
		t.Error("a deleted address was added again")
	}
}

func TestWhatIsRenewedOfAddressesWhoseRowsAreNotApplied(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	const lasting, short = "876000h", "10s"
	for name, c := range map[string]struct {
		row     Address
		age     time.Duration
		others  func(*Seen)
		renewed bool
	}{
		"soon":                         {with("e0", "192.0.2.1/24", rtnl.Scope{}, "12s", short), 7 * time.Second, nil, false},
		"in time":                      {with("e0", "192.0.2.1/24", rtnl.Scope{}, "12s", short), 8 * time.Second, nil, true},
		"in IPv6":                      {with("e0", "2001:db8::1/64", rtnl.Scope{}, "12s", short), 8 * time.Second, nil, true},
		"for a century":                {with("e0", "192.0.2.1/24", rtnl.Scope{}, lasting, lasting), time.Hour, nil, false},
		"for ever, but not preferred":  {with("e0", "192.0.2.1/24", rtnl.Scope{}, "", "0s"), time.Hour, nil, false},
		"a preferred one that ran out": {with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", short), 10 * time.Second, func(s *Seen) { s.PreferredLifetime = LifetimeOf(0) }, true},
		"that others have deprecated":  {with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", short), 5 * time.Second, func(s *Seen) { s.PreferredLifetime = LifetimeOf(0) }, false},
		"that others deprecate later":  {with("e0", "192.0.2.1/24", rtnl.Scope{}, "8s", ""), 7 * time.Second, func(s *Seen) { s.PreferredLifetime = LifetimeOf(0) }, true},
		"that others have set":         {with("e0", "192.0.2.1/24", rtnl.Scope{}, "12s", short), time.Hour, func(s *Seen) { s.ValidLifetime = LifetimeOf(60) }, false},
		"of others":                    {with("e0", "192.0.2.1/24", rtnl.Scope{}, "12s", short), time.Hour, func(s *Seen) { s.Ours = false }, false},
		"that others have changed":     {with("e0", "192.0.2.1/24", rtnl.Scope{}, "12s", short), time.Hour, func(s *Seen) { s.unmarked = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			target := newTarget(t, t.TempDir())
			mustUpdate(t, target, c.row, true)
			present, err := target.presentNow(t.Context(), unix.AF_UNSPEC)
			if err != nil {
				t.Fatal(err)
			}
			r := target.NewRenewer(Mirror{})
			r.list()
			due, next := r.due(func(key SeenKey) (Seen, bool) {
				s, found := present(key)
				s.set -= uint32(c.age / (10 * time.Millisecond))
				if c.others != nil {
					c.others(&s)
				}
				return s, found
			})
			if (len(due) == 1) != c.renewed || next <= 0 || next > longestRenewal {
				t.Errorf("due: %d; next in %v", len(due), next)
			}
			if len(due) == 1 && (due[0].row.ValidLifetime != c.row.ValidLifetime || due[0].row.PreferredLifetime != c.row.PreferredLifetime) {
				t.Errorf("it gets %v and %v", due[0].row.ValidLifetime, due[0].row.PreferredLifetime)
			}
			mustDelete(t, target, c.row)
		})
	}
}

// Whether the declared lifetime has run out depends on when it was set.
func TestItIsKnownWhenAPermanentAddressWasDeprecated(t *testing.T) {
	r := rtnl.Request{Data: make([]byte, unix.SizeofIfaCacheinfo)}
	set := sinceBoot() - 500
	r.PutUint32(4, endless)
	r.PutUint32(12, set)
	if l := decodeLifetimes(r.Data, unix.IFA_F_PERMANENT|unix.IFA_F_DEPRECATED); l != (lifetimes{Forever, LifetimeOf(0), set}) {
		t.Errorf("%+v, set at %d", l, set)
	}
	r.PutUint32(0, endless)
	if l := decodeLifetimes(r.Data, unix.IFA_F_PERMANENT); l != (lifetimes{valid: Forever, preferred: Forever}) {
		t.Errorf("%+v", l)
	}
}

func TestWhatKeptTheRenewerWaitingIsOverSoon(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: longestRenewal, 100 * time.Millisecond: 2 * time.Second, 35 * time.Second: maxRenewal} {
		if got := pauseAfter(took, longestRenewal); got != want {
			t.Errorf("after %v: %v, expected %v", took, got, want)
		}
	}
}
