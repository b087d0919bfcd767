package rtnl

import (
	"errors"
	"fmt"
	"strings"
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

// kernelError turns the library's error, "number: text", into ours.
func kernelError(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	text, found := strings.CutPrefix(err.Error(), errno.Error()+": ")
	if !found {
		text = ""
	}
	return &Error{Errno: errno, Text: strings.TrimRight(text, ". \n")}
}

// NoLinkError says that there is no link of a name. It matches syscall.ENODEV.
type NoLinkError struct{ Name string }

// Error implements error.
func (e *NoLinkError) Error() string { return fmt.Sprintf("device %q does not exist", e.Name) }

// Unwrap returns syscall.ENODEV.
func (e *NoLinkError) Unwrap() error { return syscall.ENODEV }
