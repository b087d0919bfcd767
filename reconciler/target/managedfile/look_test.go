package managedfile

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Writes through a mapping of a file do not always change its times.
func TestAFileThatLooksTheSameIsReadAgainAfterAWhile(t *testing.T) {
	v, seen := newVersions(), version{stamp: stamp{Inode: 1, Kind: unix.S_IFREG}, Hash: "1"}
	read := time.Unix(1000, 0)
	v.note("a", seen, read)
	for after, known := range map[time.Duration]bool{0: true, freshFor - 1: true, freshFor: false, time.Hour: false} {
		if is, ok := v.get("a", seen.stamp, read.Add(after)); ok != known || is != seen {
			t.Errorf("after %v: %v, %v", after, is, ok)
		}
	}
}
