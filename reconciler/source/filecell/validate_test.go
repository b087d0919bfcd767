package filecell_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidateSaysWhatIsWrongWithoutStartingAnything(t *testing.T) {
	a := newApp(t, t.TempDir())
	a.write("a.yaml", "kind: lamp\nname: desk\n")
	if out, code := a.run("validate", a.dir); code != 0 || out != "1 document in 1 file is valid\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	a.write("b.yaml", "kind: lamp\nname: desk\ncolour: red\n---\nkind: lamp\nname: wall\n")                                     //nolint:misspell // on purpose
	const problem = `b.yaml:3:1: field "colour": unknown field of kind lamp; did you mean "color"? The fields are: color, name` //nolint:misspell // on purpose
	if out, code := a.run("validate", a.dir); code != 1 || out != problem+"\n1 problem found in 3 documents in 2 files\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	out, code := a.run("validate", a.dir, "-o", "json")
	var got struct {
		Files, Documents int
		Problems         []struct {
			File, Field  string
			Line, Column int
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || got.Files != 2 || got.Documents != 3 || len(got.Problems) != 1 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if p := got.Problems[0]; p.File != "b.yaml" || p.Line != 3 || p.Column != 1 || p.Field != "colour" { //nolint:misspell // on purpose
		t.Errorf("problem %+v", p)
	}
	for want, args := range map[string][]string{
		"requires at least 1 arg": {"validate"},
		`"/none" cannot be read`:  {"validate", "/none"},
	} {
		if out, code := a.run(args...); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, %q", args, code, out)
		}
	}
	if a.db != nil {
		t.Error("something was constructed that documents do not need")
	}
}

func TestSchemaIsPrintedOfTheKindsThatAreNamed(t *testing.T) {
	a := newApp(t, t.TempDir())
	for _, args := range [][]string{{"schema"}, {"schema", "lamp"}} {
		out, code := a.run(args...)
		var got struct {
			Defs map[string]struct {
				Properties map[string]any
			} `json:"$defs"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Defs) != 1 || got.Defs["lamp"].Properties["color"] == nil {
			t.Errorf("%v: exit code %d, %v: %s", args, code, err, out)
		}
	}
	if out, code := a.run("schema", "lam"); code != 1 || !strings.Contains(out, `there is no kind "lam"; the kinds are: lamp`) {
		t.Errorf("exit code %d, %q", code, out)
	}
}
