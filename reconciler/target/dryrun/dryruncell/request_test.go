package dryruncell

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/source/file"
)

// repeated is a text, and how often it is repeated.
func repeated(text string, n int) io.Reader {
	return io.LimitReader(&endless{text: text}, int64(n*len(text)))
}

type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

// No request costs much more memory than the documents that an agent would read from a directory.
func TestRequestsThatAreTooLargeAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	body := func(parts ...io.Reader) io.Reader {
		return io.MultiReader(append([]io.Reader{strings.NewReader(`{"files":[`)}, parts...)...)
	}
	for name, c := range map[string]struct {
		body io.Reader
		want string
	}{
		"files":          {body(repeated(`{},`, 80_000_000)), "expected at most 100000 files"},
		"a path":         {body(strings.NewReader(`{"path":"`), repeated("x", 5000), strings.NewReader(`"}]}`)), "a path of 5000 bytes, expected at most 4096"},
		"a reason":       {body(strings.NewReader(`{"path":"a","unread":"`), repeated("x", 9000), strings.NewReader(`"}]}`)), `"a": the reason why it is not read has 9000 bytes, expected at most 8192`},
		"a file":         {body(strings.NewReader(`{"path":"a","data":"`), repeated("AAAA", 50_000_000)), "a file is larger than 16777216 bytes"},
		"a little more":  {body(strings.NewReader(`{"path":"a","data":"`), repeated("AAAA", file.MaxFileSize/3+1), strings.NewReader(`"}]}`)), `"a" has 16777218 bytes, expected at most 16777216`},
		"spaces":         {body(repeated(" ", 200_000_000)), "a file is larger than 16777216 bytes"},
		"spaces outside": {io.MultiReader(repeated(" ", 200_000_000), strings.NewReader("{}")), "a file is larger than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readRequest(c.body)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %s", err, c.want)
			}
			if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent > 200 {
				t.Errorf("%d MiB were allocated", spent)
			}
		})
	}
}

func TestRequestsAtTheLimitsAreRead(t *testing.T) {
	want := request{Files: []file.File{{Path: "a", Data: make([]byte, file.MaxFileSize)}, {Path: strings.Repeat("x", 4096), Unread: "it is gone"}, {Path: "b", Data: make([]byte, file.MaxFileSize)}}}
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRequest(strings.NewReader(string(text)))
	if err != nil || len(got.Files) != 3 || len(got.Files[2].Data) != file.MaxFileSize || got.Files[1].Unread != "it is gone" {
		t.Errorf("%d files, error %v", len(got.Files), err)
	}
}

func TestRequestsOfAnotherShapeAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		``:                           "EOF",
		`{}`:                         `the field "files" is missing`,
		`{"files":null}`:             "expected a list of files",
		`[]`:                         "expected an object",
		`{"files":{}}`:               "expected a list of files",
		`{"files":[],"files":[]}`:    `the field "files" is there twice`,
		`{"file":[]}`:                `unknown field "file"`,
		`{"files":[],"more":1}`:      `unknown field "more"`,
		`{"files":[{"name":"a"}]}`:   `unknown field "name"`,
		`{"files":[]}{}`:             "nothing after it",
		`{"files":[{"path":"a"}`:     "EOF",
		`{"files":[{"data":"***"}]}`: "illegal base64",
	} {
		if _, err := readRequest(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %s", body, err, want)
		}
	}
	if got, err := readRequest(strings.NewReader(` { "files" : [ ] } `)); err != nil || got.Files == nil {
		t.Errorf("no files: %v, %v", got.Files, err)
	}
}
