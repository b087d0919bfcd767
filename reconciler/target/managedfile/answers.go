package managedfile

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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

// check returns an error if a directory does not answer. Until it does, it is not asked again.
func (a *answers) check(dir string) error {
	a.mu.Lock()
	silent, others := a.silent[dir], len(a.silent)
	a.mu.Unlock()
	switch {
	case silent:
		return fmt.Errorf("directory %s: %w", dir, errNoAnswer)
	case others >= maxSilent:
		return fmt.Errorf("directory %s is not used while %d others do not answer: %w", dir, others, errNoAnswer)
	}
	answered := make(chan struct{})
	go func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(dir, &stat) // errors are answers; unlike other calls this one is not answered from a cache
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
