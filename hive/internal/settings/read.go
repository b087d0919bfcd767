// Package settings reads settings files: YAML with a single map from flag names to values.
//
// Its functions are safe for concurrent use. Errors name the file and the line.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/hive/internal/graph"
	"github.com/statehive/statehive/internal/trusted"
	"github.com/statehive/statehive/internal/yamlsize"
)

// ReadFile returns the entries of a file in order, including duplicates, and all errors, joined. An invalid value is nil. If the file
// cannot be read or does not hold such a map, it returns an error and no entries.
func ReadFile(path string) ([]graph.FileEntry, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// maxSize is the largest size of a settings file, in bytes.
const maxSize = 1 << 20

// read returns the content of a file that only trusted users can write, because settings control the program. A file descriptor, as of
// a pipe, was opened by the program's caller and is trusted.
func read(path string) ([]byte, error) {
	open := func() (*os.File, error) { return trusted.Open(path, trusted.Policy{}) }
	if dir := filepath.Dir(path); dir == "/dev/fd" || dir == "/proc/self/fd" || path == "/dev/stdin" {
		open = func() (*os.File, error) { return os.Open(path) }
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("%s: it is larger than %d bytes", path, maxSize)
	}
	return data, err
}

// maxStructure is how much a settings file may say, as [yamlsize.Structure] counts: about 5,000 settings.
const maxStructure = 32 << 10

// check rejects files that are not text or would take the parser too much memory.
func check(path string, data []byte) error {
	isControl := func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }
	if !utf8.Valid(data) || bytes.ContainsFunc(data, isControl) {
		return fmt.Errorf("%s: expected text in UTF-8", path)
	}
	structure := 0
	for _, document := range yamlsize.Documents(data) {
		structure += yamlsize.Structure(document)
	}
	if structure > maxStructure {
		return fmt.Errorf("%s: it holds too many names and values: its structure counts %d, expected at most %d", path, structure, maxStructure)
	}
	return nil
}

func parse(path string, data []byte) ([]graph.FileEntry, error) {
	if err := check(path, data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: expected one document, and nothing after it", path)
	}
	root := document.Content[0]
	if root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: expected a map from names of flags to values", path, root.Line)
	}
	var entries []graph.FileEntry
	var errs []error
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		position := fmt.Sprintf("%s:%d", path, key.Line)
		v, err := valueOf(root.Content[i+1])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", position, key.Value, err))
		}
		entries = append(entries, graph.FileEntry{Key: key.Value, Position: position, Value: v})
	}
	return entries, errors.Join(errs...)
}

// valueOf returns a string, []string or map[string]string, or nil and an error.
func valueOf(n *yaml.Node) (any, error) {
	n = target(n)
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			text, err := textOf(item)
			if err != nil {
				return nil, err
			}
			list = append(list, text)
		}
		return list, nil
	case yaml.MappingNode:
		return pairsOf(n)
	}
	text, err := textOf(n)
	if err != nil {
		return nil, err
	}
	return text, nil
}

func pairsOf(n *yaml.Node) (any, error) {
	pairs := make(map[string]string)
	for i := 0; i < len(n.Content); i += 2 {
		key, err := textOf(n.Content[i])
		if err != nil {
			return nil, err
		}
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("line %d: duplicate key %q", n.Content[i].Line, key)
		}
		if pairs[key], err = textOf(n.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

func textOf(n *yaml.Node) (string, error) {
	n = target(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", fmt.Errorf("line %d: expected a single value, got a list or a map", n.Line)
	case n.Tag == "!!null":
		return "", fmt.Errorf("line %d: expected a value, got nothing", n.Line)
	}
	return n.Value, nil
}

// target resolves an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
