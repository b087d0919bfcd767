package file

import (
	"os"
	"syscall"
	"time"
)

// How a file is known to be complete. It is not read while somebody has it open for
// writing, as far as a lease tells. One that was changed in place must have stayed as it
// is for a moment, and for longer if it has lost something; another file in its place is
// read at once.
const (
	// fileQuiet is for how long a file that was changed in place must stay unchanged.
	fileQuiet = 100 * time.Millisecond
	// shrunkQuiet is that for one that is shorter than its version in force.
	shrunkQuiet = time.Second
	// startGrace is how long the first listing waits for files that are being written.
	startGrace = time.Second
	// longWriting is how long a file must be in the middle of being written to be shown so.
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

// activity is what is known of how a file was changed last.
type activity struct {
	stamp   stamp
	since   time.Time // when the stamp was first seen
	inPlace bool      // the stamp is from a change in place, as far as is known
	busy    time.Time // since when it was found in the middle of being written; zero if it is not
}

// circumstances are those of a look at a file.
type circumstances struct {
	at      time.Time
	written bool // a write to the file was reported
	unsure  bool // writes may not have been reported
}

// note takes in the stamp of a file.
func (a *activity) note(s stamp, c circumstances) {
	before := a.stamp
	if s == before && !c.written {
		return
	}
	first := before == stamp{}
	a.stamp, a.since = s, c.at
	a.inPlace = c.written || c.unsure && first || !first && s.sameFile(before)
	if first {
		// How old it is by the clock of the machine is all that is known. A file of the
		// future has to be seen unchanged.
		age := c.at.Sub(time.Unix(0, s.modified))
		a.since = c.at.Add(-max(0, age))
	}
}

// unquiet returns for how long a file must still stay as it is before it is read, given
// the size of its version in force.
func (a *activity) unquiet(at time.Time, sizeInForce int64) time.Duration {
	if !a.inPlace {
		return 0
	}
	quiet := fileQuiet
	if a.stamp.size < sizeInForce {
		quiet = shrunkQuiet
	}
	return quiet - at.Sub(a.since)
}

// writing notes that a file is in the middle of being written, and returns when to look
// again: nobody reports that it is closed.
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

// writtenLong reports whether a file has been in the middle of being written for long.
func (a *activity) writtenLong(at time.Time) bool {
	return !a.busy.IsZero() && at.Sub(a.busy) >= longWriting
}

// busyError is that a file is in the middle of being written.
type busyError struct {
	again time.Duration // when to look again; 0: when the writer may have ended
}

func (*busyError) Error() string { return "is being written" }
