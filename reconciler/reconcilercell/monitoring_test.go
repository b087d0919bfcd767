package reconcilercell_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

const documentation = "../../Documentation"

func readDocument(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documentation, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exposed is what a scrape of a hive with a reconciler has.
type exposed struct {
	types  map[string]string          // of metrics, by name
	series map[string]bool            // names as expressions have them, such as x_bucket
	labels map[string]map[string]bool // their values, by name
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	seriesLine = regexp.MustCompile(`^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

func scrapeExposed(t *testing.T) exposed {
	t.Helper()
	var r running
	r.begin(t, newHive(t, inspect.Cell(), metrics.Cell(""), reconcilercell.Cell(), dbcell.Cell(), filecell.Cell(),
		things(cell.Invoke(r.keep)), cell.Invoke(func(registry prometheus.Gatherer) { r.registry = registry })),
		"--metrics-address=", "--config-dir", t.TempDir())
	err := r.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, err := r.table.RegisterSource(txn, "documents")
		return err
	}, r.table)
	if err != nil {
		t.Fatal(err)
	}
	// Prometheus adds the labels of the target.
	e := exposed{types: map[string]string{}, series: map[string]bool{}, labels: map[string]map[string]bool{"job": {}, "instance": {}}}
	for line := range strings.Lines(scrapeAll(t, r.registry)) {
		line = strings.TrimSpace(line)
		if m := typeLine.FindStringSubmatch(line); m != nil {
			e.types[m[1]] = m[2]
		}
		m := seriesLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		e.series[m[1]] = true
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if e.labels[pair[1]] == nil {
				e.labels[pair[1]] = map[string]bool{}
			}
			e.labels[pair[1]][pair[2]] = true
		}
	}
	return e
}

// token is a part of an expression of PromQL.
type token struct{ kind, text string }

var tokens = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{"space", regexp.MustCompile(`^\s+`)},
	{"string", regexp.MustCompile(`^"(?:[^"\\]|\\.)*"|^'(?:[^'\\]|\\.)*'`)},
	{"range", regexp.MustCompile(`^\[[^\]]*\]`)},
	{"number", regexp.MustCompile(`^\d[\w.]*`)},
	{"name", regexp.MustCompile(`^[a-zA-Z_:][\w:]*`)},
	{"operator", regexp.MustCompile(`^(?:=~|!~|==|!=|>=|<=|[-+*/%^<>={}(),])`)},
}

func tokenize(expression string) (list []token, err error) {
	for rest := expression; rest != ""; {
		matched := false
		for _, kind := range tokens {
			if text := kind.pattern.FindString(rest); text != "" {
				if rest, matched = rest[len(text):], true; kind.kind != "space" {
					list = append(list, token{kind.kind, text})
				}
				break
			}
		}
		if !matched {
			return nil, fmt.Errorf("%q: what is %q?", expression, rest)
		}
	}
	return list, nil
}

// uses is what an expression refers to.
type uses struct {
	metrics, labels []string
	values          [][2]string // label and value
}

var (
	lists    = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	keywords = []string{"and", "or", "unless", "bool", "offset"}
)

// parseUses finds the metrics and labels of an expression.
func parseUses(expression string) (u uses, err error) {
	list, err := tokenize(expression)
	if err != nil {
		return u, err
	}
	at := func(i int) string {
		if i < len(list) {
			return list[i].text
		}
		return ""
	}
	depth := 0
	for i := 0; i < len(list); i++ {
		switch text := list[i].text; {
		case text == "{":
			for i++; at(i) != "}"; i++ {
				if i >= len(list) {
					return u, fmt.Errorf("%q: a brace is open", expression)
				}
				if list[i].kind == "name" && strings.ContainsAny(at(i+1), "=!") && list[min(i+2, len(list)-1)].kind == "string" {
					u.labels = append(u.labels, at(i))
					u.values = append(u.values, [2]string{at(i), strings.Trim(at(i+2), `"'`)})
				}
			}
		case text == "(":
			depth++
		case text == ")":
			depth--
		case list[i].kind != "name", slices.Contains(keywords, text):
		case slices.Contains(lists, text) && at(i+1) == "(":
			for i += 2; i < len(list) && at(i) != ")"; i++ {
				if list[i].kind == "name" {
					u.labels = append(u.labels, at(i))
				}
			}
		case at(i+1) == "(", slices.Contains(lists, at(i+1)): // a function, or an aggregation
		default:
			u.metrics = append(u.metrics, text)
		}
	}
	if depth != 0 {
		return u, fmt.Errorf("%q: parentheses do not match", expression)
	}
	return u, nil
}

// check says what an expression refers to that no scrape has.
func (e exposed) check(t *testing.T, where, expression string) {
	t.Helper()
	u, err := parseUses(expression)
	if err != nil || len(u.metrics) == 0 {
		t.Errorf("%s: %v; metrics %q", where, err, u.metrics)
		return
	}
	for _, name := range u.metrics {
		if !e.series[name] {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
	for _, label := range u.labels {
		if e.labels[label] == nil {
			t.Errorf("%s: there is no label %s", where, label)
		}
	}
	for _, value := range u.values {
		for one := range strings.SplitSeq(value[1], "|") {
			if known := e.labels[value[0]]; !strings.HasPrefix(one, "$") && !known[one] {
				t.Errorf("%s: label %s is never %q, but one of %q", where, value[0], one, slices.Sorted(maps.Keys(known)))
			}
		}
	}
}

func TestExpressionsAreTakenApart(t *testing.T) {
	for expression, want := range map[string]string{
		`a_total`:               "[a_total] [] []",
		`rate(a_total[5m]) > 1`: "[a_total] [] []",
		`sum by (x, le) (rate(a_bucket{lane!="b",y=~"c|d"}[$__rate_interval])) / 1e3`:       "[a_bucket] [x le lane y] [[lane b] [y c|d]]",
		`sum(a{l="}\"(b)"}) by (m) and on (j) time() - b offset 5m > 3 * 3600 or vector(0)`: `[a b] [l m j] [[l }\"(b)]]`,
		`max without (z) (a) == bool b * on (i) group_left (k) c`:                           "[a b c] [z i k] []",
	} {
		u, err := parseUses(expression)
		if got := fmt.Sprint(u.metrics, " ", u.labels, " ", u.values); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", expression, got, err, want)
		}
	}
	for _, bad := range []string{`sum(a`, `a{b="c"`, `a ~ b`} {
		if _, err := parseUses(bad); err == nil {
			t.Errorf("%s is no expression", bad)
		}
	}
}

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type ruleGroups struct {
	Groups []struct {
		Name  string  `yaml:"name"`
		Rules []alert `yaml:"rules"`
	} `yaml:"groups"`
}

func readAlerts(t *testing.T) (alerts []alert) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(readDocument(t, "monitoring/alerts.yaml")))
	decoder.KnownFields(true)
	var rules ruleGroups
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		if g.Name == "" {
			t.Error("a group has no name")
		}
		alerts = append(alerts, g.Rules...)
	}
	return alerts
}

func TestAlertsAreAboutWhatThereIsAndAreExplained(t *testing.T) {
	e, page := scrapeExposed(t), readDocument(t, "monitoring.md")
	templated := regexp.MustCompile(`\$labels\.(\w+)`)
	var names, headings []string
	for _, a := range readAlerts(t) {
		names = append(names, a.Alert)
		e.check(t, a.Alert, a.Expr)
		if !regexp.MustCompile(`^\d+[mh]$`).MatchString(a.For) {
			t.Errorf("%s: for %q", a.Alert, a.For)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", a.Alert, a.Labels["severity"], a.Annotations["summary"])
		}
		for _, m := range templated.FindAllStringSubmatch(a.Annotations["summary"], -1) {
			if e.labels[m[1]] == nil {
				t.Errorf("%s: there is no label %s", a.Alert, m[1])
			}
		}
		if want := "Documentation/monitoring.md#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want {
			t.Errorf("%s: runbook %q, want %q", a.Alert, a.Annotations["runbook"], want)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Statehive\w+)$`).FindAllStringSubmatch(page, -1) {
		headings = append(headings, m[1])
	}
	if !slices.Equal(names, headings) {
		t.Errorf("alerts\n%q\nbut the page explains\n%q", names, headings)
	}
}

// dashboard is of what Grafana knows only what is checked.
type dashboard struct {
	Title      string
	UID        string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	e := scrapeExposed(t)
	var d dashboard
	if err := json.Unmarshal([]byte(readDocument(t, "monitoring/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) == 0 {
		t.Errorf("%q %q, %d panels", d.Title, d.UID, len(d.Panels))
	}
	variables := map[string]bool{"$__rate_interval": true}
	choice := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		variables["$"+v.Name] = true
		if m := choice.FindStringSubmatch(v.Query); m != nil {
			e.check(t, "variable "+v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
		} else if v.Type == "query" {
			t.Errorf("variable %s: %q", v.Name, v.Query)
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q: id %d is taken, or it has no title", p.Title, p.ID)
		}
		ids[p.ID] = true
		p.checkPlace(t, taken)
		p.checkTargets(t, e, variables)
	}
}

func (p panel) checkPlace(t *testing.T, taken map[[2]int]string) {
	t.Helper()
	if p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
		t.Errorf("panel %q is %d wide at %d: the dashboard has 24 columns", p.Title, p.GridPos.W, p.GridPos.X)
	}
	for x := range p.GridPos.W {
		for y := range p.GridPos.H {
			at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
			if other, there := taken[at]; there {
				t.Errorf("panel %q lies over %q", p.Title, other)
				return
			}
			taken[at] = p.Title
		}
	}
}

func (p panel) checkTargets(t *testing.T, e exposed, variables map[string]bool) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.Description == "" || len(p.Targets) == 0 {
		t.Errorf("panel %q has no description, or nothing to show", p.Title)
	}
	for _, target := range p.Targets {
		e.check(t, p.Title, target.Expr)
		for _, v := range regexp.MustCompile(`\$\w+`).FindAllString(target.Expr, -1) {
			if !variables[v] {
				t.Errorf("panel %q: there is no variable %s", p.Title, v)
			}
		}
		for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
			if !strings.Contains(target.Expr, m[1]) || e.labels[m[1]] == nil {
				t.Errorf("panel %q: no label %s is left of %s", p.Title, m[1], target.Expr)
			}
		}
	}
}

func TestThePageDocumentsEveryMetric(t *testing.T) {
	e, page := scrapeExposed(t), readDocument(t, "monitoring.md")
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(statehive_\\w+)` \\| (\\w+) \\| .+ \\|$").FindAllStringSubmatch(page, -1) {
		documented[m[1]] = m[2]
	}
	for name, kind := range e.types {
		ours := strings.HasPrefix(name, "statehive_reconciler_") || strings.HasPrefix(name, "statehive_table_")
		if ours && documented[name] != kind {
			t.Errorf("%s is a %s, and documented as %q", name, kind, documented[name])
		}
	}
	for _, name := range regexp.MustCompile(`\bstatehive_\w+`).FindAllString(page, -1) {
		if e.types[name] == "" {
			t.Errorf("the page speaks of %s, which there is not", name)
		}
	}
}
