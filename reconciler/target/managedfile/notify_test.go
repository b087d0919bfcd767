package managedfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNotificationsOfOpenDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	must(t, os.Mkdir(dir, 0o755))
	n, err := newNotifier()
	must(t, err)
	f, err := openFolder(dir)
	must(t, err)
	watch, err := n.add(f.fd)
	must(t, err)
	if again, err := n.add(f.fd); err != nil || again != watch {
		t.Errorf("added again: %d, %v, expected %d", again, err, watch)
	}
	must(t, f.close())
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	if got, want := <-n.events, (notification{watch, "a", false}); got != want {
		t.Errorf("made: %+v, expected %+v", got, want)
	}
	must(t, os.Remove(filepath.Join(dir, "a")))
	<-n.events
	must(t, os.Remove(dir))
	got := <-n.events
	for got.name == "" && !got.ended { // its attributes
		got = <-n.events
	}
	if want := (notification{watch, "", true}); got != want {
		t.Errorf("removed: %+v, expected %+v", got, want)
	}
	n.remove(watch) // the kernel has done that
	n.close()       // although nobody receives the rest
	if _, err := n.add(0); err == nil {
		t.Error("added after the end")
	}
	n.remove(watch)
}

func TestTooManyNotificationsAreAnError(t *testing.T) {
	n, err := newNotifier()
	must(t, err)
	defer n.close()
	event := make([]byte, unix.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(event[4:], unix.IN_Q_OVERFLOW)
	go n.pass(event)
	if err := <-n.errors; !errors.Is(err, errLost) {
		t.Errorf("error %v", err)
	}
}
