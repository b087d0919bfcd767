package cell

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrPanic matches a *PanicError.
	ErrPanic = errors.New("panic")
	// ErrGoexit is the error of a function that called runtime.Goexit, as testing.T.FailNow does.
	ErrGoexit = errors.New("it ended its goroutine instead of returning (runtime.Goexit)")
	// ErrOverdue is the error of a function that did not return after its deadline, and may still be running.
	ErrOverdue = errors.New("overdue: it has not returned after its deadline")
	// ErrNotConfigured is wrapped by the *BuildError of a configuration that is needed before it has been read.
	ErrNotConfigured = errors.New("the configuration has not been read yet")
)

// PanicError is a panic in a function of a cell: a constructor, an invoked function, a hook, a command and so on.
type PanicError struct {
	Value any    // the argument of panic
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

// GraphError is a fault in the graph of cells.
type GraphError struct {
	Module   FullModuleID // the module at fault
	Where    string       // the module and its file:line, as text
	Function string       // the constructor, decorator or invoked function and its file:line, if any
	Problem  string       // what is wrong
}

func (e *GraphError) Error() string { return join(e.Where, e.Function, e.Problem) }

// BuildError is the failure of a constructor, a decorator or an invoked function.
type BuildError struct {
	Module   FullModuleID // the module that it belongs to
	Where    string       // the module and its file:line, as text
	Function string       // the function and its file:line
	Err      error        // what it returned, a *PanicError, ErrGoexit, or an error that wraps ErrOverdue
}

func (e *BuildError) Error() string { return join(e.Where, e.Function, fmt.Sprint(e.Err)) }

// Unwrap returns what the function returned.
func (e *BuildError) Unwrap() error { return e.Err }

// ConfigError is an invalid value in the configuration.
type ConfigError struct {
	Module FullModuleID // the module whose configuration it is
	Origin string       // where the value comes from, such as "environment variable STATEHIVE_SOCKET"; empty for Validate
	Value  string       // as given; Redacted for a secret
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

// maxKey is the number of bytes of a key shown in an error.
const maxKey = 100

// UnknownKeyError is an unknown key in a settings file, or a mistyped environment variable.
type UnknownKeyError struct {
	Location string   // file:line, or "environment"
	Key      string   // as given
	Known    []string // the closest known key, or all if there are few
}

func (e *UnknownKeyError) Error() string {
	key := shortened(e.Key)
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s: unknown key %q: no setting has a name like that", e.Location, key)
	}
	return fmt.Sprintf("%s: unknown key %q: there is %s", e.Location, key, strings.Join(e.Known, ", "))
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
