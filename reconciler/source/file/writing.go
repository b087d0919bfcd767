package file

import (
	"os"
	"syscall"
	"time"
)

// Times after which a file is considered complete. A file is not read while somebody has it
// open for writing, as far as a lease can tell. A file that was changed in place must have
// been unchanged for a while, and for longer if it has become shorter. So must an empty one,
// which may just have been made. Another file that replaces one is read immediately.
const (
	// fileQuiet is how long a file that was changed in place must stay unchanged.
	fileQuiet = 100 * time.Millisecond
	// shrunkQuiet is how long a file that is empty, or shorter than its version in force, must
	// stay unchanged.
	shrunkQuiet = time.Second
	// startGrace is how long the first listing waits for files that are being written.
	startGrace = time.Second
	// copyCheck is the interval of checks whether a temporary file is still being written.
	copyCheck = 250 * time.Millisecond
	// longWriting is how long a file must have been in writing to be shown as being written.
	longWriting = 10 * time.Second
)

// stamp changes when a file is changed in place or replaced.
type stamp struct {
	device, inode  uint64
	size, modified int64
}

func stampOf(info os.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = stat.Dev, stat.Ino
	}
	return s
}

func (s stamp) sameFile(other stamp) bool { return s.device == other.device && s.inode == other.inode }

// activity records how and when a file was last changed.
type activity struct {
	stamp   stamp
	since   time.Time // when the stamp was first seen
	inPlace bool      // as far as is known, the last change was in place
	busy    time.Time // since when it has been found being written; zero if it is not
}

// circumstances are the circumstances of reading a file.
type circumstances struct {
	at      time.Time
	written bool // a write to the file was reported
	unsure  bool // writes may not have been reported
}

// note records the stamp of a file.
func (a *activity) note(s stamp, c circumstances) {
	before := a.stamp
	if s == before && !c.written {
		return
	}
	first := before == stamp{}
	a.stamp, a.since = s, c.at
	a.inPlace = c.written || c.unsure && first || !first && s.sameFile(before)
	if first {
		// Only its age by the system clock is known. A file from the future has to be
		// observed unchanged.
		age := c.at.Sub(time.Unix(0, s.modified))
		a.since = c.at.Add(-max(0, age))
	}
}

// unquiet returns how much longer a file must stay unchanged before it is read, given the
// size of its version in force.
func (a *activity) unquiet(at time.Time, sizeInForce int64) time.Duration {
	quiet := fileQuiet
	switch {
	case a.stamp.size == 0:
		quiet = shrunkQuiet
	case !a.inPlace:
		return 0
	case a.stamp.size < sizeInForce:
		quiet = shrunkQuiet
	}
	return quiet - at.Sub(a.since)
}

// writing records that a file is being written, and returns the time until the next check,
// because nothing reports that the file is closed.
func (a *activity) writing(at time.Time) time.Duration {
	if a.busy.IsZero() {
		a.busy = at
	}
	busy := at.Sub(a.busy)
	if busy >= longWriting {
		return impaired
	}
	return min(max(busy/4, 50*time.Millisecond), 250*time.Millisecond)
}

// writtenLong reports whether a file has been in writing for long.
func (a *activity) writtenLong(at time.Time) bool {
	return !a.busy.IsZero() && at.Sub(a.busy) >= longWriting
}

// busyError is the error for a file that is being written.
type busyError struct {
	again time.Duration // time until the next check; 0: when the writer may have ended
}

func (*busyError) Error() string { return "is being written" }
