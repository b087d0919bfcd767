package rtnl

import (
	"fmt"
	"syscall"
)

// Error is an error of the kernel. It matches its error number with errors.Is.
type Error struct {
	Errno syscall.Errno
	Text  string // the kernel's own explanation; may be empty
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Text == "" && e.Errno == syscall.EPERM:
		return e.Errno.Error() + ": it takes the capability CAP_NET_ADMIN, as root has it"
	case e.Text == "":
		return e.Errno.Error()
	}
	return fmt.Sprintf("%s (%v)", e.Text, e.Errno)
}

// Unwrap returns the error number.
func (e *Error) Unwrap() error { return e.Errno }

// NoLinkError is the error for a link that does not exist. It matches syscall.ENODEV.
type NoLinkError struct{ Name string }

// Error implements error.
func (e *NoLinkError) Error() string { return fmt.Sprintf("device %q does not exist", e.Name) }

// Unwrap returns syscall.ENODEV.
func (e *NoLinkError) Unwrap() error { return syscall.ENODEV }
