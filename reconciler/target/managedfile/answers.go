package managedfile

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/parallel"
)

// answers finds out whether file systems answer. Those of a network, or of another process, may not, and whatever uses
// one then waits until it does. It is safe for concurrent use.
type answers struct {
	patience time.Duration

	mu     sync.Mutex
	silent map[string]bool // directories that were asked and have not answered
}

const (
	// answerTime is how long a file system may take to answer.
	answerTime = 2 * time.Second
	// maxSilent limits the directories that are waited for, each of which holds up a thread.
	maxSilent = 100
)

// errNoAnswer matches the error for a directory whose file system does not answer.
var errNoAnswer = errors.New("its file system does not answer: is the server that it is mounted from away?")

func newAnswers() *answers { return &answers{patience: answerTime, silent: map[string]bool{}} }

// open opens a directory, unless it does not answer.
func (a *answers) open(dir string) (*folder, error) {
	if err := a.check(dir); err != nil {
		return nil, err
	}
	return openFolder(dir)
}

// check returns an error if a directory does not answer.
func (a *answers) check(dir string) error {
	if err := a.admit(dir); err != nil {
		return err
	}
	return a.run(dir, func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(dir, &stat) // errors are answers; unlike other calls this one is not answered from a cache
	})
}

// checkAll checks directories, several at the same time. Those that do not answer are known from then on.
func (a *answers) checkAll(dirs iter.Seq[string]) {
	all := slices.Compact(slices.Sorted(dirs))
	if len(all) > 1 {
		parallel.Each(len(all), func(i int) { _ = a.check(all[i]) }) // whoever uses one checks it, too
	}
}

// ask looks at what is in a directory, with a copy of f. It returns an error if the directory does not answer.
func ask[T any](a *answers, f *folder, look func(f *folder) (T, error)) (answer T, err error) {
	if err := a.admit(f.path); err != nil {
		return answer, err
	}
	own := *f // f may be closed before the file system answers
	if own.fd, err = unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return answer, fmt.Errorf("directory %s: %w", f.path, err)
	}
	type result struct {
		answer T
		err    error
	}
	results := make(chan result, 1)
	err = a.run(f.path, func() {
		answer, err := look(&own)
		_ = own.close() // nothing was written to it
		results <- result{answer, err}
	})
	if err != nil {
		return answer, err
	}
	r := <-results
	return r.answer, r.err
}

// admit returns an error if a directory must not be used: it was, and has not answered.
func (a *answers) admit(dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch others := len(a.silent); {
	case a.silent[dir]:
		return fmt.Errorf("directory %s: %w", dir, errNoAnswer)
	case others >= maxSilent:
		return fmt.Errorf("directory %s is not used while %d others do not answer: %w", dir, others, errNoAnswer)
	}
	return nil
}

// run calls fn, which uses a directory, and waits until it returns. It returns an error if that takes too long; then the
// directory must not be used until fn has returned.
func (a *answers) run(dir string, fn func()) error {
	answered := make(chan struct{})
	go func() {
		fn()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.silent, dir)
		close(answered)
	}()
	timer := time.NewTimer(a.patience)
	defer timer.Stop()
	select {
	case <-answered:
		return nil
	case <-timer.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-answered:
		return nil
	default:
		a.silent[dir] = true
		return fmt.Errorf("directory %s: %w", dir, errNoAnswer)
	}
}
