package cell

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrPanic matches a *PanicError.
	ErrPanic = errors.New("panic")
	// ErrGoexit is the error of a function that called runtime.Goexit, as the FailNow of a test does.
	ErrGoexit = errors.New("it ended its goroutine instead of returning (runtime.Goexit)")
	// ErrOverdue is the error of a function that did not return after its deadline, and may still be running.
	ErrOverdue = errors.New("overdue: it has not returned after its deadline")
	// ErrNotConfigured is the error, within a *BuildError, of a configuration that is needed before it has been read.
	ErrNotConfigured = errors.New("the configuration has not been read yet")
)

// PanicError is a panic of a function of a cell: a constructor, an invoked function, a hook, a command and so on.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine, as text
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Is reports whether target is ErrPanic.
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// GraphError is a fault in how the cells fit together.
type GraphError struct {
	Module   FullModuleID // the module at fault
	Where    string       // the module and where it is written, for people
	Function string       // the constructor or invoked function with its file:line, if there is one
	Problem  string       // what is wrong
}

func (e *GraphError) Error() string { return join(e.Where, e.Function, e.Problem) }

// BuildError is a constructor, a decorator or an invoked function that has failed.
type BuildError struct {
	Module   FullModuleID // the module that it belongs to
	Where    string       // the module and where it is written, for people
	Function string       // the constructor or invoked function with its file:line
	Err      error        // what it returned, a *PanicError, ErrGoexit, or an error that wraps ErrOverdue
}

func (e *BuildError) Error() string { return join(e.Where, e.Function, e.Err.Error()) }

// Unwrap returns what the function returned.
func (e *BuildError) Unwrap() error { return e.Err }

// ConfigError is a value of the configuration that cannot be used.
type ConfigError struct {
	Module FullModuleID // the module whose configuration it is
	Origin string       // where the value comes from, such as "environment variable STATEHIVE_SOCKET"; empty for Validate
	Value  string       // as it was given; Redacted for a secret
	Err    error        // what was expected
}

func (e *ConfigError) Error() string {
	if e.Origin == "" {
		return fmt.Sprintf("configuration of module %q: %v", e.Module, e.Err)
	}
	return fmt.Sprintf("%s=%q: %v", e.Origin, e.Value, e.Err)
}

// Unwrap returns what was expected.
func (e *ConfigError) Unwrap() error { return e.Err }

// maxKey is how many bytes of a key an error shows.
const maxKey = 100

// UnknownKeyError is a key in a file of settings that no setting has, or a mistyped environment variable.
type UnknownKeyError struct {
	Place string   // the file and the line, or "environment"
	Key   string   // as it was given
	Known []string // what there is instead: the key that was meant, or all if there are few
}

func (e *UnknownKeyError) Error() string {
	key := shortened(e.Key)
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s: unknown key %q: no setting has a name like that", e.Place, key)
	}
	return fmt.Sprintf("%s: unknown key %q: there is %s", e.Place, key, strings.Join(e.Known, ", "))
}

func shortened(key string) string {
	if len(key) > maxKey {
		return key[:maxKey] + "…"
	}
	return key
}

func join(parts ...string) string {
	var filled []string
	for _, p := range parts {
		if p != "" {
			filled = append(filled, p)
		}
	}
	return strings.Join(filled, ": ")
}
