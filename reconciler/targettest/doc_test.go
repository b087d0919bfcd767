package targettest_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/targettest"
)

// What is written of targets is what is checked of them.
func TestTheListOfRulesIsThatOfTheDocumentation(t *testing.T) {
	documented := documentedRules(t)
	checked := targettest.RuleNames()
	for i, name := range checked {
		checked[i] = strings.ToUpper(name[:1]) + name[1:]
	}
	for _, rule := range documented {
		if !slices.Contains(checked, rule) {
			t.Errorf("the comment of reconciler.Target has the rule %q, which is not checked", rule)
		}
	}
	for _, rule := range checked {
		if !slices.Contains(documented, rule) {
			t.Errorf("the rule %q is checked, and is not in the comment of reconciler.Target", rule)
		}
	}
	if !t.Failed() && !slices.Equal(documented, checked) {
		t.Errorf("the rules are checked in the order %q, and documented in the order %q", checked, documented)
	}
}

// documentedRules returns the list in the comment of reconciler.Target, without what is said of
// each rule after a colon.
func documentedRules(t *testing.T) (rules []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../target.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		types, ok := declaration.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE || types.Specs[0].(*ast.TypeSpec).Name.Name != "Target" {
			continue
		}
		for _, block := range new(comment.Parser).Parse(types.Doc.Text()).Content {
			list, ok := block.(*comment.List)
			if !ok {
				continue
			}
			for _, item := range list.Items {
				text := string(new(comment.Printer).Text(&comment.Doc{Content: item.Content}))
				rule, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), ":")
				rules = append(rules, strings.TrimSuffix(rule, "."))
			}
		}
	}
	return rules
}
