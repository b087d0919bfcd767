package managedfile

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

const (
	benchFiles = 10_000
	benchBatch = 256 // what a reconciler hands over at a time
)

// BenchmarkFiles writes 10,000 files of 1 kB and compares that with copying them, in the
// same run on the same file system, with as much care for the disk: "cp" copies one file
// after the other and syncs each; "cp-sync" runs cp(1), and then sync(1) on all of them.
func BenchmarkFiles(b *testing.B) {
	from := b.TempDir()
	rows := make([]File, benchFiles)
	for i := range rows {
		content := fmt.Sprintf("%0999d\n", i)
		rows[i] = file("", content)
		if err := os.WriteFile(filepath.Join(from, fmt.Sprint(i)), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		unix.Sync()
		each := timed(b, func(to string) error { return copyAndSync(from, to) })
		unix.Sync()
		all := timed(b, func(to string) error {
			return exec.Command("sh", "-c", `cp -r "$0" "$1/to" && find "$1/to" | xargs sync`, from, to).Run() //nolint:gosec // our own paths
		})
		unix.Sync()
		ours, again, change, removal := phases(b, rows)
		b.ReportMetric(float64(each.Milliseconds()), "cp-ms")
		b.ReportMetric(float64(all.Milliseconds()), "cp-sync-ms")
		b.ReportMetric(float64(ours.Milliseconds()), "make-ms")
		b.ReportMetric(float64(again.Milliseconds()), "again-ms")
		b.ReportMetric(float64(change.Milliseconds()), "change-ms")
		b.ReportMetric(float64(removal.Milliseconds()), "delete-ms")
		b.ReportMetric(float64(ours)/float64(each), "make/cp")
		b.ReportMetric(float64(ours)/float64(all), "make/cp-sync")
	}
}

// phases makes files, does that again, changes each, and deletes them all.
func phases(b *testing.B, rows []File) (making, again, change, removal time.Duration) {
	b.Helper()
	target, to := benchTarget(b), b.TempDir()
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Path = filepath.Join(to, fmt.Sprint(i))
	}
	making = update(b, target, rows, true)
	again = update(b, target, rows, false)
	for i := range rows {
		rows[i].Mode = 0o600
	}
	change = update(b, target, rows, true)
	began := time.Now()
	for chunk := range slices.Chunk(rows, benchBatch) {
		for _, err := range target.DeleteBatch(b.Context(), nil, chunk) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return making, again, change, time.Since(began)
}

func benchTarget(b *testing.B) *Target {
	b.Helper()
	owned, err := ownership.Open(ownership.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	target, err := New(Config{Owned: owned})
	if err != nil {
		b.Fatal(err)
	}
	if err := target.Init(b.Context()); err != nil {
		b.Fatal(err)
	}
	return target
}

// timed returns how long it takes to fill a directory, which is removed.
func timed(b *testing.B, fill func(to string) error) time.Duration {
	b.Helper()
	to := b.TempDir()
	began := time.Now()
	if err := fill(to); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if err := os.RemoveAll(to); err != nil {
		b.Fatal(err)
	}
	return took
}

// update updates rows as a reconciler does, and returns how long that takes.
func update(b *testing.B, target *Target, rows []File, changed bool) time.Duration {
	b.Helper()
	txn, began := statedb.New().ReadTxn(), time.Now()
	for chunk := range slices.Chunk(rows, benchBatch) {
		for i, result := range target.UpdateBatch(b.Context(), txn, chunk) {
			if result.Err != nil || result.Result.Changed != changed {
				b.Fatalf("%s: %v, changed %v", chunk[i].Path, result.Err, result.Result.Changed)
			}
		}
	}
	return time.Since(began)
}

// copyAndSync copies the files of a directory, one after the other.
func copyAndSync(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := copyFile(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
