package reconciler_test

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
)

// move is a transition of a row from one stage to another.
type move struct{ from, to string }

// moves are the moves between stages that rows have made, in the form of the diagram.
type moves struct {
	mu   sync.Mutex
	seen map[move]bool
}

func (m *moves) add(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[move]bool{}
	}
	m.seen[move{from, to}] = true
}

// strange returns the moves that are not in the diagram.
func (m *moves) strange(diagram map[move]bool) (strange []move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for made := range m.seen {
		if !diagram[made] {
			strange = append(strange, made)
		}
	}
	return strange
}

const lifePath = "../Documentation/life-of-a-row.md"

var lifePage = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(lifePath)
	return string(text), err
})

// lifeDiagram returns the moves of the diagram. An arrow from or to a group of
// stages is one for each of them.
func lifeDiagram(page string) map[move]bool {
	_, diagram, _ := strings.Cut(page, "```mermaid\n")
	diagram, _, _ = strings.Cut(diagram, "```")
	groups, open := map[string][]string{}, []string{}
	var arrows []move
	arrow := regexp.MustCompile(`^(\S+) --> (\S+): .+$`)
	for line := range strings.Lines(diagram) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "state "):
			open = append(open, strings.Fields(line)[1])
		case line == "}":
			open = open[:len(open)-1]
		case arrow.MatchString(line):
			m := arrow.FindStringSubmatch(line)
			arrows = append(arrows, move{m[1], m[2]})
		case len(open) > 0 && line != "":
			for _, group := range open {
				groups[group] = append(groups[group], line)
			}
		}
	}
	members := func(name string) []string {
		if name == "[*]" {
			return []string{"rest"}
		}
		if group := groups[name]; group != nil {
			return group
		}
		return []string{name}
	}
	legal := map[move]bool{}
	for _, a := range arrows {
		for _, from := range members(a.from) {
			for _, to := range members(a.to) {
				if from != to {
					legal[move{from, to}] = true
				}
			}
		}
	}
	return legal
}

func mustLifeDiagram(t *testing.T) map[move]bool {
	t.Helper()
	page, err := lifePage()
	if err != nil {
		t.Fatal(err)
	}
	return lifeDiagram(page)
}

// wantKnownMoves checks that rows made only moves of the diagram.
func (w *world) wantKnownMoves() {
	w.t.Helper()
	if strange := w.moves.strange(mustLifeDiagram(w.t)); len(strange) > 0 {
		w.t.Errorf("rows made moves that %s does not have: %v", lifePath, strange)
	}
}

// TestRowsTakeEachTransitionOfTheDiagramAndNoOther lets the simulation make moves,
// and makes those itself that the simulation does not come to.
func TestRowsTakeEachTransitionOfTheDiagramAndNoOther(t *testing.T) {
	seen := &moves{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, 5000+seed, 3)
			for _, a := range s.actors {
				a.moves = seen
			}
			s.run()
			for _, a := range s.actors {
				a.stop()
			}
		})
	}
	for _, stage := range []string{"backoff", "terminal", "debounce", "paused", "limit", "order"} {
		at(t, stage, true, func(w *world) { w.moves = seen }, func(t *testing.T, w *world) {
			w.check(w.r.Forget(t.Context(), "a"))
		})
	}
	for _, stage := range []string{"dependency", "order"} {
		for _, then := range []func(w *world){(*world).endHolds, func(w *world) { w.put(row{ID: "a", Want: 7}) }} {
			at(t, stage, stage == "order", func(w *world) {
				w.moves, w.config.Debounce = seen, 10*time.Millisecond
			}, func(_ *testing.T, w *world) {
				then(w)
				w.pass(time.Second)
			})
		}
	}
	for _, stage := range []string{"settle", "drift"} {
		for _, then := range []func(w *world){func(w *world) { w.put(row{ID: "a", Want: 7}) }, func(w *world) { w.sights.see(sighting{"a", 1}) }} {
			at(t, stage, false, func(w *world) {
				w.moves, w.config.Debounce = seen, 10*time.Millisecond
			}, func(_ *testing.T, w *world) {
				then(w)
				w.pass(time.Second)
				w.sights.see(sighting{"a", 8})
			})
		}
	}
	takeTheTransitionsOfRefreshes(t, seen)
	if diff := cmp.Diff(mustLifeDiagram(t), seen.seen); diff != "" {
		t.Errorf("moves of rows (-in %s +made):\n%s", lifePath, diff)
	}
}

// takeTheTransitionsOfRefreshes has rows be refreshed that were done before, that change, and that
// are compared with what is observed of them.
func takeTheTransitionsOfRefreshes(t *testing.T, seen *moves) {
	t.Helper()
	at(t, "refresh", false, func(w *world) {
		w.moves, w.config.Debounce = seen, 10*time.Millisecond
	}, func(_ *testing.T, w *world) {
		w.pass(2 * time.Hour)
		w.put(row{ID: "a", Want: 7})
		w.pass(time.Second)
		w.stop()
		w.start()
		w.pass(time.Second)
	})
	at(t, "settle", false, func(w *world) {
		watching := w.params
		w.moves, w.params = seen, func(p *reconciler.Params[row]) {
			watching(p)
			hourly(p)
		}
	}, func(_ *testing.T, w *world) {
		w.sights.see(sighting{"a", 1})
		w.pass(2 * time.Hour)
	})
}

// hourly has rows be applied again every hour.
func hourly(p *reconciler.Params[row]) {
	p.RefreshInterval = func(row) time.Duration { return time.Hour }
}

// TestStagesAreNamedAsTheirPageSays brings a row to each stage.
func TestStagesAreNamedAsTheirPageSays(t *testing.T) {
	page, err := lifePage()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \| (\w+) \| (\S+) \| (\S+) \| .+ \|$`).FindAllStringSubmatch(page, -1) {
		stage, want := m[1], []string{m[2], m[3], m[4]}
		if stage == "stage" {
			continue
		}
		described[stage] = true
		at(t, stage, m[2] == "gone", func(*world) {}, func(_ *testing.T, w *world) {
			w.equal("stage "+stage, want, w.looks())
		})
	}
	inCode := map[string]bool{}
	for _, stage := range reconciler.Stages() {
		inCode[stage] = true
	}
	if diff := cmp.Diff(inCode, described); diff != "" {
		t.Errorf("stages (-in the code +described):\n%s", diff)
	}
	for _, class := range reconciler.Classes() {
		if !strings.Contains(page, "`"+class+"`") {
			t.Errorf("%s does not name class %s", lifePath, class)
		}
	}
	inDiagram := map[string]bool{}
	for m := range lifeDiagram(page) {
		inDiagram[m.from], inDiagram[m.to] = true, true
	}
	if diff := cmp.Diff(inDiagram, described); diff != "" {
		t.Errorf("stages (-in the diagram +described):\n%s", diff)
	}
}
