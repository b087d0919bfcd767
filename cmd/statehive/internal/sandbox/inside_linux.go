package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// handover is what the parent passes to the child in Variable.
type handover struct {
	// Outside maps the kind of a namespace to the inode number of the parent's. The child's must differ.
	Outside map[string]uint64 `json:"outside"`
	// StateDir is the empty directory for the child's tmpfs.
	StateDir string `json:"stateDir"`
	// Listeners are file descriptors by name.
	Listeners map[string]int `json:"listeners"`
}

func (h handover) variable() (string, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("describing the sandbox to the child: %w", err)
	}
	return Variable + "=" + string(text), nil
}

// Inherited is what a process in the sandbox has received from its parent. It is not safe for concurrent use.
type Inherited struct {
	stateDir  string
	listeners map[string]int
}

// Inside reports whether this process was started by Run, and returns what its parent passed to it. Call it once, at startup:
// the results of several calls would share file descriptors.
//
// It does not rely on the environment variable alone. If Variable is set, but this process is still in one of the parent's
// namespaces, or its user namespace is not one that Run creates, Inside fails with ErrNotInside: acting as if in a sandbox
// would change the machine.
func Inside() (*Inherited, bool, error) {
	text, set := os.LookupEnv(Variable)
	if !set {
		return nil, false, nil
	}
	var h handover
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, false, fmt.Errorf("%w: %w; unset it", ErrNotInside, err)
	}
	if err := h.verify(); err != nil {
		return nil, false, fmt.Errorf("%w: %w; unset it", ErrNotInside, err)
	}
	for _, number := range h.Listeners {
		syscall.CloseOnExec(number)
	}
	return &Inherited{stateDir: h.StateDir, listeners: h.Listeners}, true, nil
}

func (h handover) verify() error {
	ids, err := namespaceIDs()
	if err != nil {
		return err
	}
	for _, kind := range sortedNames(ids) {
		outside, ok := h.Outside[kind]
		if !ok {
			return fmt.Errorf("the parent's %s namespace is missing", kind)
		}
		if ids[kind] == outside {
			return fmt.Errorf("this process is still in the parent's %s namespace (%d)", kind, outside)
		}
	}
	return verifyUserMap("/proc/self/uid_map")
}

// verifyUserMap checks that root is the only user of the user namespace. The machine's and containers' have many.
func verifyUserMap(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 || fields[0] != "0" || fields[2] != "1" {
		return fmt.Errorf("%s: expected root as the only user, found %q", path, strings.Join(fields, " "))
	}
	return nil
}

// namespaceIDs identifies the namespaces of this process by their inode numbers.
func namespaceIDs() (map[string]uint64, error) {
	ids := map[string]uint64{}
	for _, kind := range []string{"user", "net", "mnt"} {
		path := "/proc/self/ns/" + kind
		info, err := os.Stat(path)
		if err != nil {
			return nil, explain("looking for the "+kind+" namespace", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, fmt.Errorf("%s: no inode number in %T", path, info.Sys())
		}
		ids[kind] = stat.Ino
	}
	return ids, nil
}

// Listener returns the listener that the parent passed under this name. It can be taken once, and the caller must close it;
// that does not remove a unix socket, which belongs to the parent. Errors: ErrNoListener.
func (i *Inherited) Listener(name string) (net.Listener, error) {
	number, ok := i.listeners[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q (there are: %s)", ErrNoListener, name, strings.Join(sortedNames(i.listeners), ", "))
	}
	delete(i.listeners, name)
	file := os.NewFile(uintptr(number), name)
	listener, err := net.FileListener(file)
	if err != nil {
		closeFiles([]*os.File{file})
		return nil, fmt.Errorf("inherited listener %q: %w", name, err)
	}
	return listener, file.Close()
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
