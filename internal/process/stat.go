package process

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat is what /proc/PID/stat says of a process or a thread.
type stat struct {
	id      string
	state   byte
	flags   uint64
	started uint64
}

// From linux/sched.h: the thread has begun to end, or is about to because of a signal.
const (
	flagExiting  = 0x4
	flagSignaled = 0x400
)

// dead reports whether the thread has ended and holds nothing any more.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// ending reports whether the thread will not return to its program.
func (s stat) ending() bool { return s.flags&(flagExiting|flagSignaled) != 0 }

func (d dir) stat(name string) (stat, error) {
	text, err := d.root.ReadFile(name)
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

// parseStat reads a line such as "12 (name) S …". The name may hold any characters.
func parseStat(text string) (stat, error) {
	// Indexes of the fields after the name, see proc_pid_stat(5).
	const state, flags, started = 0, 6, 19
	id, _, named := strings.Cut(text, " (")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if !named || len(fields) <= started {
		return stat{}, fmt.Errorf("not the state of a process: %q", text)
	}
	s := stat{id: id, state: fields[state][0]}
	var flagsErr, startedErr error
	s.flags, flagsErr = strconv.ParseUint(fields[flags], 10, 64)
	s.started, startedErr = strconv.ParseUint(fields[started], 10, 64)
	return s, errors.Join(flagsErr, startedErr)
}

// killSignal reports whether SIGKILL is in a set of pending signals, such as "SigPnd" of "status".
func (d dir) killSignal(file, set string) bool {
	text, err := d.root.ReadFile(file)
	if err != nil {
		return false
	}
	value, _ := Field(string(text), set)
	signals, err := strconv.ParseUint(value, 16, 64)
	return err == nil && signals&(1<<(unix.SIGKILL-1)) != 0
}

// Field returns the value of a line "NAME: VALUE", as /proc/PID/status has them.
func Field(text, name string) (value string, ok bool) {
	for line := range strings.Lines(text) {
		if field, value, ok := strings.Cut(line, ":"); ok && field == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// gone reports whether what was read has ended meanwhile.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) }
