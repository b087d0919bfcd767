package ownership_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/ownership"
)

type record struct {
	Original string `json:"original"`
}

var here = ownership.Identity{Boot: "b1", Netns: "cookie:1"}

func open(t *testing.T, dir string, identity ownership.Identity, log *slog.Logger) *ownership.Records[record] {
	t.Helper()
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: identity, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func put(t *testing.T, records *ownership.Records[record], key, original string) {
	t.Helper()
	if err := records.Put(key, record{original}); err != nil {
		t.Fatal(err)
	}
}

func wantRecords(t *testing.T, records *ownership.Records[record], want map[string]record) {
	t.Helper()
	if diff := cmp.Diff(want, maps.Collect(records.All())); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "sysctl"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestRecordsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	long := strings.Repeat("x/", 300)
	records := open(t, dir, here, nil)
	put(t, records, "eth0 10.0.0.5/24", "a")
	put(t, records, "..", "b")
	put(t, records, ".tmp-1", "g")
	put(t, records, long, "c")
	put(t, records, long+"y", "d")
	put(t, records, "gone", "e")
	put(t, records, "..", "f")
	for range 2 {
		if err := records.Remove("gone"); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]record{"eth0 10.0.0.5/24": {"a"}, "..": {"f"}, ".tmp-1": {"g"}, long: {"c"}, long + "y": {"d"}}
	wantRecords(t, records, want)
	wantRecords(t, open(t, dir, here, nil), want)
	if got, ok := records.Get(long); !ok || got.Original != "c" {
		t.Errorf("Get = %v, %v", got, ok)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the state directory = %v, %v", info.Mode(), err)
	}
}

func TestRecordsOfAnotherBootOrNamespaceClaimNothing(t *testing.T) {
	for name, c := range map[string]struct {
		elsewhere ownership.Identity
		warnings  int
	}{
		"boot":                           {ownership.Identity{Boot: "b2", Netns: here.Netns}, 0},
		"network namespace of this boot": {ownership.Identity{Boot: here.Boot, Netns: "cookie:2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, open(t, dir, c.elsewhere, nil), "k", "old")
			var log bytes.Buffer
			wantRecords(t, open(t, dir, here, slog.New(slog.NewTextHandler(&log, nil))), map[string]record{})
			wantFiles(t, dir)
			if n := strings.Count(log.String(), "another network namespace is dropped"); n != c.warnings {
				t.Errorf("%d warnings, expected %d:\n%s", n, c.warnings, &log)
			}
		})
	}
}

func TestADirectoryInWhichOthersCouldWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	_, err := ownership.Open(ownership.Config{Dir: dir, Identity: here})
	if err == nil || !strings.Contains(err.Error(), dir+" can be written to by others") {
		t.Errorf("Open: %v", err)
	}
	if err := os.Chmod(dir, 0o750); err != nil { //nolint:gosec // the group may read
		t.Fatal(err)
	}
	open(t, dir, here, nil)
}

func TestARecordThatCannotBeWrittenIsNotThere(t *testing.T) {
	dir := t.TempDir()
	records := open(t, dir, here, nil)
	if err := os.RemoveAll(filepath.Join(dir, "sysctl")); err != nil {
		t.Fatal(err)
	}
	if err := records.Put("k", record{"1"}); err == nil || !strings.Contains(err.Error(), `record "k": `) {
		t.Errorf("Put without a directory: %v", err)
	}
	wantRecords(t, records, map[string]record{})
}

func TestRecordsMayBeUsedByManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	records := open(t, dir, here, nil)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 20 {
				key := fmt.Sprint(worker, i)
				if err := records.Put(key, record{key}); err != nil {
					t.Error(err)
				}
				for range records.All() {
					break
				}
				if i%2 == 0 {
					if err := records.Remove(key); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	want := maps.Collect(records.All())
	if len(want) != 80 {
		t.Errorf("%d records, expected 80", len(want))
	}
	wantRecords(t, open(t, dir, here, nil), want)
}

func TestIdentityIsThatOfTheNetworkNamespace(t *testing.T) {
	first, err := ownership.CurrentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ownership.CurrentIdentity()
	if err != nil || again != first {
		t.Errorf("a second look says %v, %v, expected %v", again, err, first)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		other, err := ownership.CurrentIdentity()
		if err != nil || other.Netns == first.Netns || other.Boot != first.Boot {
			t.Errorf("in another network namespace: %v, %v, after %v", other, err, first)
		}
	}()
	<-done
}

func TestOpenRefusesToWorkWithoutADirectory(t *testing.T) {
	if _, err := ownership.NewRecords[record](nil, "sysctl"); err == nil {
		t.Error("NewRecords without a store succeeded")
	}
	if _, err := ownership.Open(ownership.Config{Identity: here}); err == nil {
		t.Error("Open without a directory succeeded")
	}
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ownership.Open(ownership.Config{Dir: occupied, Identity: here}); err == nil {
		t.Error("Open of a file succeeded")
	}
}

func TestAStoreThatIsOnlyReadStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	owner := open(t, dir, here, nil)
	put(t, owner, "k", "1")
	put(t, open(t, dir, ownership.Identity{Boot: "b1", Netns: "cookie:2"}, nil), "elsewhere", "2") // drops k, which is of here
	put(t, owner, "k", "1")
	for name, text := range map[string]string{"half.json": `{"boot":`, ".tmp-1": "", "notes.txt": "somebody's"} {
		if err := os.WriteFile(filepath.Join(dir, "sysctl", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := everything(t, dir)
	var log bytes.Buffer
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: here, ReadOnly: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, records, map[string]record{"k": {"1"}})
	if n := strings.Count(log.String(), "half.json"); n != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log:\n%s", &log)
	}
	if err := records.Put("new", record{"1"}); !errors.Is(err, ownership.ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
	if err := records.Remove("k"); !errors.Is(err, ownership.ErrReadOnly) {
		t.Errorf("Remove: %v", err)
	}
	other, err := ownership.NewRecords[record](store, "another kind")
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, other, map[string]record{})
	if diff := cmp.Diff(before, everything(t, dir)); diff != "" || !store.ReadOnly() {
		t.Errorf("the state directory has changed (-before +after):\n%s", diff)
	}
}

func TestAStateDirectoryThatDoesNotExistCanBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: here, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, records, map[string]record{})
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has been made: %v", err)
	}
}

// everything returns what there is in a directory, with times.
func everything(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		var text []byte
		if err == nil && info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		all = append(all, fmt.Sprintf("%s %v %v %s", path, info.Mode(), info.ModTime().UnixNano(), text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
