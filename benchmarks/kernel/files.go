package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// content is what is in one of the files: 1 kB.
func content(i int) string { return fmt.Sprintf("%0999d\n", i) }

func fileDocuments(dir string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\nkind: file\npath: %s/%d\ncontent: %q\n", dir, i, content(i))
	}
	return b.String()
}

func filesOfAgent(ctx context.Context, t *trial) error {
	dir := filepath.Join(t.dir, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	m := many{
		table: "files", n: t.Objects, document: fileDocuments(dir, t.Objects),
		inKernel: func() (int, error) { return countFiles(dir) }, in: filesAdded,
	}
	return t.withAgent(ctx, "", m, func(*agent) error { return nil })
}

// filesByCopy copies as many files, one after the other, and syncs each: cp(1) itself
// does not.
func filesByCopy(ctx context.Context, t *trial) error {
	from, to := filepath.Join(t.dir, "from"), filepath.Join(t.dir, "to")
	if err := errors.Join(os.Mkdir(from, 0o700), os.Mkdir(to, 0o700)); err != nil {
		return err
	}
	for i := range t.Objects {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprint(i)), []byte(content(i)), 0o600); err != nil {
			return err
		}
	}
	return t.phase(ctx, filesAdded, theirs, func(ctx context.Context) (float64, error) {
		began := time.Now()
		for i := range t.Objects {
			if err := errors.Join(ctx.Err(), copyAndSync(filepath.Join(from, fmt.Sprint(i)), filepath.Join(to, fmt.Sprint(i)))); err != nil {
				return 0, err
			}
		}
		return time.Since(began).Seconds(), nil
	})
}

func copyAndSync(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func countFiles(dir string) (int, error) {
	all, err := os.ReadDir(dir)
	return len(all), err
}
