package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/trusted"
)

// The lock of the state directory is a file with places. An agent locks the first place that no killed agent keeps, and writes there which
// process it is. Every agent looks at all places, so that one that has another place counts, too, when the first one is free again.
const (
	places    = 8
	placeSize = 128
)

// place is one of the places of the lock.
type place struct {
	file   *os.File
	number int64
}

// lockDir makes sure that only one agent uses the directory. The kernel releases the lock when the process ends, however it ends. An agent that was
// killed and cannot end does not count.
func lockDir(dir string, logger *slog.Logger) (*os.File, error) {
	file, err := trusted.OpenIn(dir, "lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("state directory (--%s): %w", stateDirSetting, err)
	}
	free, err := takePlace(file, logger)
	if err == nil && free {
		return file, nil
	}
	_ = file.Close() // nothing was written
	if err != nil {
		return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	return nil, fmt.Errorf("state directory %s is in use by another agent: stop that one, or choose another directory with --%s", dir, stateDirSetting)
}

// takePlace locks the first place that no killed agent has. It returns false if an agent has one that was not killed.
func takePlace(file *os.File, logger *slog.Logger) (bool, error) {
	for number := range int64(places) {
		p := place{file, number}
		locked, err := p.take()
		var killed *hangingError
		if errors.As(err, &killed) {
			killed.warn(logger)
			continue
		}
		if err != nil || !locked {
			return false, err
		}
		if used, err := anotherUses(file, number); used || err != nil {
			return false, err
		}
		return true, nil
	}
	return false, nil
}

// anotherUses reports whether an agent that was not killed has another place.
func anotherUses(file *os.File, own int64) (bool, error) {
	for number := range int64(places) {
		p := place{file, number}
		if number == own {
			continue
		}
		locked, err := p.locked()
		if err != nil {
			return false, err
		}
		if _, killed := p.holder().Killed(); locked && !killed {
			return true, nil
		}
	}
	return false, nil
}

// take locks the place. It returns false if an agent has it, and a *hangingError if a killed one does.
func (p place) take() (bool, error) {
	var by process.Process
	for {
		locked, err := p.lock()
		if err != nil || locked {
			return locked, err
		}
		before := by
		if by = p.holder(); by == before {
			return false, nil
		}
		// Another one may have taken the place meanwhile.
		if waits, hangs := by.Hangs(); hangs && by == p.holder() {
			return false, &hangingError{by.PID, "the lock of the state directory", waits}
		}
	}
}

// lock locks the place unless another process has it.
func (p place) lock() (bool, error) {
	err := unix.FcntlFlock(p.file.Fd(), unix.F_OFD_SETLK, p.region(unix.F_WRLCK))
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, p.sign()
}

// sign writes which process has the place.
func (p place) sign() error {
	self, err := process.Self()
	if err != nil {
		return err
	}
	_, err = p.file.WriteAt(fmt.Appendf(nil, "%-*s\n", placeSize-1, self), p.number*placeSize)
	return err
}

// holder returns the process that has written that it has the place, or none.
func (p place) holder() process.Process {
	text, err := io.ReadAll(io.NewSectionReader(p.file, p.number*placeSize, placeSize))
	if err != nil {
		return process.Process{}
	}
	by, _ := process.Parse(string(text)) // none if it is none
	return by
}

// locked reports whether another process has the place.
func (p place) locked() (bool, error) {
	region := p.region(unix.F_WRLCK)
	err := unix.FcntlFlock(p.file.Fd(), unix.F_OFD_GETLK, region)
	return region.Type != unix.F_UNLCK, err
}

func (p place) region(how int16) *unix.Flock_t {
	return &unix.Flock_t{Type: how, Whence: io.SeekStart, Start: p.number * placeSize, Len: placeSize}
}
