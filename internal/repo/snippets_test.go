package repo

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// checkSnippets compares the Go code in documents with the file that it is of. After its fence stand the path of the file and the
// names of the declarations that it shows, a method as Type.Method. Code with "new" and the path is for the reader to write.
func checkSnippets(t *tree) []string {
	var findings []string
	for _, file := range t.texts {
		if !strings.HasSuffix(file.path, ".md") {
			continue
		}
		for _, s := range snippets(file.text) {
			if problem := t.compare(s); problem != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %s", file.path, s.line, problem))
			}
		}
	}
	return findings
}

// A snippet is a block of Go code in a document.
type snippet struct {
	line int
	info []string // what stands after "```go"
	code string
}

func snippets(document string) (all []snippet) {
	inside, isGo := false, false
	for i, line := range strings.Split(document, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && inside:
			inside, isGo = false, false
		case fence:
			inside = true
			info := strings.Fields(strings.TrimPrefix(line, "```"))
			if isGo = len(info) > 0 && info[0] == "go"; isGo {
				all = append(all, snippet{line: i + 1, info: info[1:]})
			}
		case isGo:
			all[len(all)-1].code += line + "\n"
		}
	}
	return all
}

// compare returns what is wrong with a snippet.
func (t *tree) compare(s snippet) string {
	switch {
	case len(s.info) < 2:
		return "Go code of nowhere: say after the fence which file and declarations it is, as in ```go examples/notes/main.go Note"
	case s.info[0] == "new":
		return ""
	}
	for _, file := range t.gos {
		if file.path == s.info[0] {
			return t.compareWith(file, s)
		}
	}
	return "there is no file " + s.info[0]
}

func (t *tree) compareWith(file goFile, s snippet) string {
	var shown []string
	for _, name := range s.info[1:] {
		declaration := find(file.syntax, name)
		if declaration == nil {
			return fmt.Sprintf("there is no declaration %s in %s", name, file.path)
		}
		shown = append(shown, t.text(file, declaration))
	}
	if s.code != strings.Join(shown, "\n") {
		return fmt.Sprintf("this is not %s of %s: copy it again", strings.Join(s.info[1:], ", "), file.path)
	}
	return ""
}

// find returns the declaration of a name; of a method, Type.Method.
func find(file *ast.File, name string) ast.Decl {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if nameOf(d) == name {
				return d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if declares(spec, name) {
					return d
				}
			}
		}
	}
	return nil
}

func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	return fmt.Sprintf("%v.%s", receiver, d.Name.Name)
}

func declares(spec ast.Spec, name string) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name == name
	case *ast.ValueSpec:
		return spec.Names[0].Name == name
	}
	return false
}

// text is a declaration with its comment, as it stands in the file.
func (t *tree) text(file goFile, d ast.Decl) string {
	begin := d.Pos()
	switch d := d.(type) {
	case *ast.FuncDecl:
		begin = beginOf(d.Doc, begin)
	case *ast.GenDecl:
		begin = beginOf(d.Doc, begin)
	}
	base := t.fset.File(file.syntax.Package).Base()
	return file.textFile.text[int(begin)-base:int(d.End())-base] + "\n"
}

func beginOf(doc *ast.CommentGroup, otherwise token.Pos) token.Pos {
	if doc == nil {
		return otherwise
	}
	return doc.Pos()
}

func TestSnippetsThatAreNotOfTheirFileAreFound(t *testing.T) {
	code := source{"a/a.go": "package a\n\n// T is.\ntype T int\n\nfunc (t *T) M() {}\n\nvar v = 1\n"}
	document := func(text string) source {
		files := source{"Documentation/a.md": text}
		for name, text := range code {
			files[name] = text
		}
		return files
	}
	tryRule(t, checkSnippets, map[string]ruleCase{
		"same":           {files: document("text\n\n```go a/a.go T\n// T is.\ntype T int\n```\n")},
		"several":        {files: document("```go a/a.go T.M v\nfunc (t *T) M() {}\n\nvar v = 1\n```\n")},
		"other language": {files: document("```console\n$ go\n```\n```\ngo\n```\n")},
		"to be written":  {files: document("```go new a/b.go\npackage a\n```\n")},
		"changed": {
			files: document("\n```go a/a.go T\n// T was.\ntype T int\n```\n"),
			want:  []string{"Documentation/a.md:2: this is not T of a/a.go: copy it again"},
		},
		"shortened": {
			files: document("```go a/a.go T\ntype T int\n```\n"),
			want:  []string{"Documentation/a.md:1: this is not T of a/a.go: copy it again"},
		},
		"unknown declaration": {
			files: document("```go a/a.go T.N\n```\n"),
			want:  []string{"Documentation/a.md:1: there is no declaration T.N in a/a.go"},
		},
		"unknown file": {files: document("```go a/c.go T\n```\n"), want: []string{"Documentation/a.md:1: there is no file a/c.go"}},
		"of nowhere": {
			files: document("```go\nx := 1\n```\n"),
			want:  []string{"Documentation/a.md:1: Go code of nowhere: say after the fence which file and declarations it is, as in ```go examples/notes/main.go Note"},
		},
	})
}
