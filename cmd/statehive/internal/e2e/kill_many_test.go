package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// many is how much TestAgentKilledAmongManyObjects... does: see make torture.
var many = struct{ kills, scale *int }{
	flag.Int("kills", 5, "how often the agent is killed among many objects of all kinds"),
	flag.Int("kill-scale", 1, "how many times as many objects as the fewest there are then"),
}

// seriesOfKills is how many kills there are before the agent may do all that the
// documents say.
const seriesOfKills = 5

// manyPatience is how long that may take.
func manyPatience() time.Duration { return time.Minute + time.Duration(*many.scale)*10*time.Second }

// noLimit lets through deletes, however many they are.
var noLimit = []string{"--change-limit-percent", "100", "--full-interval", "1s"}

func TestAgentKilledAmongManyObjectsConvergesAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	seed := chosenSeed(t)
	t.Logf("%s=%d makes the same choices", seedVariable, seed)
	choose := rand.New(rand.NewPCG(seed, 0))
	w := testWorld(t, user{name: "self"})
	must(t, w.isolate(t.Context()))
	must(t, w.makeForeign(t.Context()))
	must(t, w.setup(map[string]string{"kept.yaml": harmless}))
	original := w.settledWorld(t)
	foreign := w.foreignWorld(t)
	count := tally{most: map[string]int{}}

	// The first run with a state directory holds the deletes of what it finds: it finds nothing.
	must(t, w.launch(noLimit...))
	w.convergesTo(t, objectSet{})
	must(t, w.kill())

	for i := range *many.kills {
		must(t, w.declareMany(w.chooseMany(choose)))
		must(t, w.launch(noLimit...))
		pause(t, chooseLongDelay(choose))
		now := w.chooseMany(choose)
		must(t, w.declareMany(now))
		pause(t, chooseLongDelay(choose))
		if i%seriesOfKills == seriesOfKills-1 {
			w.convergesTo(t, now)
			count.converged++
		}
		must(t, w.kill())
		if diff := cmp.Diff(foreign, w.foreignWorld(t)); diff != "" {
			t.Fatalf("kill %d: what is not ours: %s", i+1, diff)
		}
		must(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
			is, err := w.ownObjects(ctx)
			if err == nil {
				count.killed(now, is)
			}
			return err
		}))
	}

	last := w.chooseMany(choose)
	for len(last["routes"]) == 0 {
		last = w.chooseMany(choose)
	}
	must(t, w.declareMany(last))
	must(t, w.start(t.Context(), noLimit...))
	// What is removed does not go with the links alone.
	first := last.without("rules", "routes", "files")
	for _, rest := range []objectSet{last, first, first.without("sysctls", "neighbors", "addresses"), {}} {
		must(t, w.declareMany(rest))
		w.convergesTo(t, rest)
		count.converged++
	}
	must(t, w.stop())
	// Records of sysctls whose links went first are dropped by the next start.
	must(t, w.start(t.Context(), noLimit...))
	w.convergesTo(t, objectSet{})
	must(t, w.stop())
	if diff := cmp.Diff(original, w.settledWorld(t)); diff != "" {
		t.Errorf("after the documents were removed: %s", diff)
	}
	records := slices.DeleteFunc(w.records(t), func(path string) bool { // of the document that stays
		return strings.HasSuffix(path, "/sysctl/net.ipv4.conf.all.log_martians.json") || strings.Contains(path, "/documents/")
	})
	if len(records) > 0 {
		t.Errorf("records are left over: %q", records)
	}
	t.Logf("%v; %d foreign objects and values were untouched after each", &count, len(foreign))
}

// tally is what happened in a run.
type tally struct {
	kills      int
	unfinished int // kills before all was as the documents said
	converged  int
	most       map[string]int // of each kind
}

// killed counts a kill with what was declared and what there was.
func (c *tally) killed(declared objectSet, is map[string]map[string]string) {
	c.kills++
	if !cmp.Equal(declared.states(), is, cmpopts.EquateEmpty()) {
		c.unfinished++
	}
	for table, objects := range is {
		c.most[table] = max(c.most[table], len(objects))
	}
}

func (c *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d kills, %d of them before all was done; converged %d times; objects of ours at a kill, at most:", c.kills, c.unfinished, c.converged)
	for _, table := range slices.Sorted(maps.Keys(c.most)) {
		fmt.Fprintf(&b, " %d %s,", c.most[table], table)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// chooseLongDelay is often short; the longest is enough for a part of many objects.
func chooseLongDelay(choose *rand.Rand) time.Duration {
	if choose.IntN(4) > 0 {
		return chooseDelay(choose)
	}
	return time.Duration(choose.IntN(300+50**many.scale)) * time.Millisecond
}

// convergesTo waits until the documents of these objects, and no others, are
// fulfilled: in the status and in the kernel.
func (w *world) convergesTo(t *testing.T, want objectSet) {
	t.Helper()
	rows := map[string]counts{"sysctls": {1, 1, 0}} // the document that stays
	for table, objects := range want {
		n := rows[table].Rows + len(objects)
		rows[table] = counts{n, n, 0}
	}
	must(t, until(t.Context(), manyPatience(), func(ctx context.Context) error {
		status := w.allDone(ctx)
		if diff := differ(rows, countsIn(status.stdout)); diff != "" || status.err != nil {
			return fmt.Errorf("%w: status: %s", errors.Join(status.failure(), errors.New("not converged")), diff)
		}
		return w.differsFrom(ctx, want)
	}))
}
