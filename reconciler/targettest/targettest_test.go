package targettest_test

import (
	"context"
	"errors"
	"flag"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

type row struct{ name, value string }

// notes is a target that keeps rows in a map. fault is how it breaks the
// contract.
type notes struct {
	fault string
	there map[string]string
}

func (n *notes) Init(context.Context) error {
	if n.fault == "init forgets" {
		clear(n.there)
	}
	return nil
}

func (n *notes) Update(ctx context.Context, _ statedb.ReadTxn, obj row) (reconciler.Result, error) {
	if err := ctx.Err(); err != nil && n.fault != "update ignores the context" {
		return reconciler.Result{}, err
	}
	is, known := n.there[obj.name]
	if n.fault == "update keeps what is there" && known {
		return reconciler.Result{}, nil
	}
	n.there[obj.name] = obj.value
	switch n.fault {
	case "changed is always true":
		return reconciler.Result{Changed: true}, nil
	case "changed is always false":
		return reconciler.Result{}, nil
	}
	return reconciler.Result{Changed: !known || is != obj.value}, nil
}

func (n *notes) Delete(_ context.Context, _ statedb.ReadTxn, obj row) error {
	if _, known := n.there[obj.name]; !known && n.fault == "delete of what is absent fails" {
		return errors.New("absent")
	}
	if n.fault != "delete does nothing" {
		delete(n.there, obj.name)
	}
	return nil
}

func (n *notes) Prune(_ context.Context, _ statedb.ReadTxn, desired iter.Seq2[row, statedb.Revision]) (int, error) {
	if n.fault == "prune does nothing" {
		return 0, nil
	}
	before, kept := len(n.there), map[string]string{}
	for obj := range desired {
		if value, known := n.there[obj.name]; known && n.fault != "prune removes all" {
			kept[obj.name] = value
		}
	}
	n.there = kept
	return before - len(kept), nil
}

func (n *notes) Observe(context.Context) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for name, value := range n.there {
			if n.fault == "observe skips one" && name == "b" {
				continue
			}
			if !yield(row{name, value}, nil) {
				return
			}
		}
	}
}

func (n *notes) Diff(_ context.Context, _ statedb.ReadTxn, obj row) ([]reconciler.Change, error) {
	if is := n.there[obj.name]; is != obj.value && n.fault != "diff is blind" || n.fault == "diff sees ghosts" {
		return []reconciler.Change{{Field: "value", Is: is, Want: obj.value}}, nil
	}
	return nil, nil
}

// plain hides what a target can do besides.
type plain struct{ reconciler.Target[row] }

func contract(target reconciler.Target[row], n *notes) targettest.Contract[row] {
	return targettest.Contract[row]{
		Target:   target,
		Key:      func(r row) string { return r.name },
		Rows:     []row{{"a", "1"}, {"b", "2"}},
		Variants: []row{{"b", "3"}},
		Disturb:  func(_ *testing.T, r row) { delete(n.there, r.name) },
	}
}

func TestTargetsThatKeepTheContractPass(t *testing.T) {
	n := &notes{there: map[string]string{}}
	targettest.Run(t, contract(n, n))
	targettest.Run(t, contract(plain{n}, n))
}

var fault = flag.String("fault", "", "run TestFault, which is to fail, with this fault")

func TestFault(t *testing.T) {
	if *fault != "" {
		n := &notes{fault: *fault, there: map[string]string{}}
		if strings.HasPrefix(*fault, "prune ") {
			targettest.Run(t, contract(plain{n}, n))
			return
		}
		targettest.Run(t, contract(n, n))
	}
}

// A test that fails cannot be run inside one that passes: it gets a process.
func TestTargetsThatBreakTheContractFail(t *testing.T) {
	for fault, complaint := range map[string]string{
		"update ignores the context":     "with an ended context succeeded",
		"update keeps what is there":     "Update(b).Changed = false, expected true",
		"changed is always true":         "Update(a).Changed = true, expected false",
		"changed is always false":        "Update(a).Changed = false, expected true",
		"delete of what is absent fails": "Delete(a), which is absent: absent",
		"delete does nothing":            "Observe still yields b after its Delete",
		"observe skips one":              "Observe yields b 0 times, expected once",
		"diff is blind":                  "Diff(a) = [], expected changes: true",
		"diff sees ghosts":               "expected changes: false",
		"init forgets":                   "Observe yields a 0 times, expected once",
		"prune does nothing":             "Prune with all rows desired but b = 0, <nil>, expected 1",
		"prune removes all":              "Prune with all rows desired but b = 2, <nil>, expected 1",
	} {
		t.Run(fault, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFault$", "-fault="+fault).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), complaint) {
				t.Errorf("ended with %v, expected the complaint %q in\n%s", err, complaint, out)
			}
		})
	}
}
