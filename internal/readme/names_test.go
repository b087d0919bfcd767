package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented are the packages whose names the guide to the hive uses, by the word before the dot: a package, or a type that is
// written without its package.
var documented = map[string]struct{ dir, within string }{
	"cell":       {dir: "hive/cell"},
	"cli":        {dir: "hive/cli"},
	"dbcell":     {dir: "statedb/dbcell"},
	"health":     {dir: "hive/health"},
	"healthcell": {dir: "hive/health/healthcell"},
	"hive":       {dir: "hive"},
	"hivecell":   {dir: "hive/hivecell"},
	"hivetest":   {dir: "hive/hivetest"},
	"inspect":    {dir: "hive/inspect"},
	"job":        {dir: "hive/job"},
	"metrics":    {dir: "hive/metrics"},
	"statedb":    {dir: "statedb"},
	"Group":      {dir: "hive/job", within: "Group."},
	"Hive":       {dir: "hive", within: "Hive."},
	"Inspector":  {dir: "hive", within: "Inspector."},
	"Options":    {dir: "hive", within: "Options."},
	"Readiness":  {dir: "hive", within: "Readiness."},
	"Shutdowner": {dir: "hive", within: "Shutdowner."},
}

// usedName is a name of a package or a type, such as cell.Provide.
var usedName = regexp.MustCompile(`\b([A-Za-z]+)\.([A-Z]\w*)`)

// usedNames returns the names in a document's code spans. The first column of a table that translates names has those of others,
// and so may its last one.
func usedNames(document string) (all [][]string) {
	foreign, fenced := false, false
	for line := range strings.Lines(document) {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			continue
		case !strings.HasPrefix(line, "|"):
			foreign = false
		case strings.Contains(line, "| what differs |"):
			foreign = true
		}
		if foreign {
			line = strings.Split(line, "|")[2]
		}
		for i, span := range strings.Split(line, "`") {
			if i%2 == 1 {
				all = append(all, usedName.FindAllStringSubmatch(span, -1)...)
			}
		}
	}
	return all
}

// declared returns the exported names of a package's files, methods and fields with their type before them.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			addNames(all, d)
		}
	}
	return all
}

func addNames(all map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		all[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					all[n.Name] = true
				}
			case *ast.TypeSpec:
				all[s.Name.Name] = true
				addFields(all, s)
			}
		}
	}
}

func addFields(all map[string]bool, s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			all[s.Name.Name+"."+n.Name] = true
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestTheGuideNamesWhatThereIs(t *testing.T) {
	guide, err := os.ReadFile("../../Documentation/hive.md")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]map[string]bool)
	checked := 0
	for _, found := range usedNames(string(guide)) {
		in, ok := documented[found[1]]
		if !ok {
			continue
		}
		if names[in.dir] == nil {
			names[in.dir] = declared(t, in.dir)
		}
		if checked++; !names[in.dir][in.within+found[2]] {
			t.Errorf("there is no %s in %s", found[0], in.dir)
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were found", checked)
	}
}

func TestNamesAreFoundInTextAndInTheColumnThatIsOurs(t *testing.T) {
	document := "`cell.A` and `x(job.B, job.C)`; not cell.D\n```go\n`cell.E`\n```\n" +
		"| fx | hive | what differs |\n|---|---|---|\n| `cell.F` | `cell.G` | `cell.H` |\n"
	var got []string
	for _, name := range usedNames(document) {
		got = append(got, name[0])
	}
	if want := "cell.A job.B job.C cell.G"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
