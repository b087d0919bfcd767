package managedfile

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxPath is what the kernel's PATH_MAX leaves without the final zero byte, and
	// maxName its NAME_MAX.
	maxPath = 4095
	maxName = 255
	// temporaryPrefix begins the names of files that are being written.
	temporaryPrefix = ".statehive-tmp-"
)

func checkPath(name string) error {
	const expected = "expected an absolute path, as /etc/motd"
	switch {
	case name == "":
		return errors.New("it is missing, " + expected)
	case len(name) > maxPath:
		return fmt.Errorf("it has %d bytes, expected at most %d", len(name), maxPath)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%q has control characters or is not UTF-8, %s", name, expected)
	case !path.IsAbs(name):
		return fmt.Errorf("%q is relative, %s", name, expected)
	case name == "/" || strings.HasSuffix(name, "/"):
		return fmt.Errorf("%q is a directory, expected the path of a file", name)
	case path.Clean(name) != name:
		return fmt.Errorf("%q is not clean, expected %q", name, path.Clean(name))
	case strings.HasPrefix(path.Base(name), temporaryPrefix):
		return fmt.Errorf("%q is a name of a file that is being written by this program, expected another one", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return fmt.Errorf("%q has a part of %d bytes, expected at most %d", name, len(part), maxName)
		}
	}
	return checkTree(name)
}

// checkTree refuses directory trees that belong to the kernel.
func checkTree(name string) error {
	for _, tree := range []string{"/proc", "/sys", "/dev"} {
		if name == tree || strings.HasPrefix(name, tree+"/") {
			return fmt.Errorf("%q is in %s, where the kernel and not the disk keeps files: expected a path elsewhere", name, tree)
		}
	}
	return nil
}

func dirOf(key Key) string  { return path.Dir(string(key)) }
func baseOf(key Key) string { return path.Base(string(key)) }
