package dbcell_test

import (
	"context"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
	"github.com/statehive/statehive/statedb/derive"
)

type peer struct{ Name string }

var (
	portsByDevice = statedb.NewIndex("device", func(p port) string { return p.Device })
	peersByName   = statedb.NewIndex("name", func(p peer) string { return p.Name })
)

// derivePeers makes the derivation of a table.
func derivePeers(ports *statedb.Table[port], peers *statedb.RWTable[peer]) (*derive.Derivation[peer, string], error) {
	return derive.New(context.Background(), derive.Spec[peer, string]{
		Output: peers, Primary: peersByName,
		Inputs:  []derive.Input[string]{derive.From(ports, func(_ statedb.ReadTxn, p port, affects func(string)) { affects(p.PeerName) })},
		Compute: func(_ statedb.ReadTxn, name string) (peer, bool, error) { return peer{name}, true, nil },
	})
}

// A derivation that nobody runs leaves its table uninitialized for ever.
func TestADerivationThatNothingRunsFailsTheStart(t *testing.T) {
	type derivation = *derive.Derivation[peer, string]
	run := func(jobs job.Group, d derivation) error {
		return jobs.Add(job.OneShot("derive", func(ctx context.Context, _ health.Health) error { return d.Run(ctx) }))
	}
	type unused struct{ derivation }
	for name, tt := range map[string]struct {
		more cell.Cell
		run  bool
	}{
		"nobody wants it":               {cell.Provide(derivePeers), false},
		"private":                       {cell.ProvidePrivate(derivePeers), false},
		"only what nobody wants has it": {cell.Provide(derivePeers, func(d derivation) unused { return unused{d} }), false},
		"a job":                         {cell.Group(cell.Provide(derivePeers), cell.Invoke(run)), true},
		"later, as is declared":         {cell.Group(cell.Provide(derivePeers), cell.InvokedLater(func(derivation) {})), true},
		"in a job that is invoked": {cell.Invoke(func(jobs job.Group, ports *statedb.Table[port], peers *statedb.RWTable[peer]) error {
			d, err := derivePeers(ports, peers)
			if err != nil {
				return err
			}
			return run(jobs, d)
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := hive.New(hive.Options{Name: "test-app", LookupEnv: func(string) (string, bool) { return "", false }},
				dbcell.Cell(), dbcell.Open(statedb.Schema[port]{Name: "ports", Primary: portsByDevice}),
				cell.Module("peers", "", dbcell.Protected(statedb.Schema[peer]{Name: "peers", Primary: peersByName}), tt.more))
			if err != nil {
				t.Fatal(err)
			}
			err = h.Start(t.Context())
			if err == nil {
				defer func() { _ = h.Stop(context.WithoutCancel(t.Context())) }()
			}
			const want = `module "peers": nothing runs the derivation *derive.Derivation[github.com/statehive/statehive/statedb/dbcell_test.peer,string] that dbcell_test.derivePeers makes`
			if tt.run && err != nil || !tt.run && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("start: %v\nexpected %s", err, want)
			}
		})
	}
}
