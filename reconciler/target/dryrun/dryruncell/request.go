package dryruncell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/statehive/statehive/reconciler/source/file"
)

// Limits on the files of a request, besides those on the files of a directory.
const (
	maxPath    = 4096 // bytes, as in the kernel
	maxUnread  = 8192 // bytes of the reason why a file was not read
	maxEncoded = file.MaxFileSize/3*4 + 1<<20
)

// request is that of POST /v1/plan.
type request struct {
	Files []file.File `json:"files"`
}

var (
	errLargeFile = fmt.Errorf("a file is larger than %d bytes", file.MaxFileSize)
	errFiles     = fmt.Errorf("expected at most %d files", file.MaxFiles)
	errShape     = errors.New("expected one object, and nothing after it")
)

// readRequest reads one request, and nothing after it. Without files everything would be to delete: they must be meant. What is
// too large is refused before it is decoded.
func readRequest(body io.Reader) (req request, err error) {
	limited := &portion{body, maxEncoded}
	decoder := json.NewDecoder(limited)
	decoder.DisallowUnknownFields()
	if err := expect(decoder, json.Delim('{'), "an object"); err != nil {
		return req, err
	}
	for decoder.More() {
		switch name, err := decoder.Token(); {
		case err != nil:
			return req, err
		case name != "files":
			return req, fmt.Errorf("unknown field %.100q", name)
		case req.Files != nil:
			return req, errors.New(`the field "files" is there twice`)
		}
		if req.Files, err = readFiles(decoder, limited); err != nil {
			return req, err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return req, err
	}
	limited.left = maxEncoded
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return req, errShape
	}
	if req.Files == nil {
		return req, errors.New(`the field "files" is missing`)
	}
	return req, nil
}

// readFiles reads a list of files, each of which is a portion.
func readFiles(decoder *json.Decoder, limited *portion) ([]file.File, error) {
	if err := expect(decoder, json.Delim('['), "a list of files"); err != nil {
		return nil, err
	}
	files := []file.File{}
	for {
		limited.left = maxEncoded
		if !decoder.More() {
			_, err := decoder.Token() // the closing bracket
			return files, err
		}
		if len(files) == file.MaxFiles {
			return nil, errFiles
		}
		var f file.File
		if err := decoder.Decode(&f); err != nil {
			return nil, err
		}
		if err := checkFile(f); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
}

func checkFile(f file.File) error {
	switch {
	case len(f.Path) > maxPath:
		return fmt.Errorf("a path of %d bytes, expected at most %d", len(f.Path), maxPath)
	case len(f.Unread) > maxUnread:
		return fmt.Errorf("%q: the reason why it is not read has %d bytes, expected at most %d", f.Path, len(f.Unread), maxUnread)
	case len(f.Data) > file.MaxFileSize:
		return fmt.Errorf("%q has %d bytes, expected at most %d", f.Path, len(f.Data), file.MaxFileSize)
	}
	return nil
}

// expect reads a token that must be there.
func expect(decoder *json.Decoder, want json.Token, what string) error {
	token, err := decoder.Token()
	if err == nil && token != want {
		err = fmt.Errorf("expected %s", what)
	}
	return err
}

// portion reads a body up to a limit, which is set again for each part of it, so that no part is collected that is larger.
type portion struct {
	body io.Reader
	left int
}

// Read implements io.Reader.
func (p *portion) Read(data []byte) (int, error) {
	if p.left <= 0 {
		return 0, errLargeFile
	}
	n, err := p.body.Read(data[:min(len(data), p.left)])
	p.left -= n
	return n, err
}
