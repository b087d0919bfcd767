//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
)

func unavailable() error {
	return &UnavailableError{
		Doing:  "making namespaces",
		Cause:  errors.ErrUnsupported,
		Reason: "this system is " + runtime.GOOS,
		Advice: "use Linux",
	}
}

// Run fails with ErrUnavailable: only Linux has namespaces.
func Run(context.Context, Config) (int, error) { return 0, unavailable() }

// Inherited is what the parent passes to the child; there is no sandbox on this system.
type Inherited struct{}

// Inside reports false: there is no sandbox on this system. It fails with ErrNotInside if Variable is set.
func Inside() (*Inherited, bool, error) {
	if os.Getenv(Variable) != "" {
		return nil, false, ErrNotInside
	}
	return nil, false, nil
}

// Listener fails with ErrNoListener.
func (*Inherited) Listener(name string) (net.Listener, error) {
	return nil, fmt.Errorf("%w: %q", ErrNoListener, name)
}

// Setup fails with ErrUnavailable.
func (*Inherited) Setup() (Prepared, error) { return Prepared{}, unavailable() }
