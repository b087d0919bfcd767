package managedfile

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// answers finds out whether file systems respond. A network file system, or one served by a
// process, may not respond, and a call that uses it blocks until it does. It is safe for
// concurrent use.
type answers struct {
	patience time.Duration

	mu     sync.Mutex
	silent map[string]int // number of abandoned calls that have not returned, by directory
	slow   map[string]slowness
}

// slowness is how long a directory has kept others waiting lately. A tenth of the time that has
// passed since then is forgiven.
type slowness struct {
	waited time.Duration
	at     time.Time // until when that was counted
}

func (s slowness) left(now time.Time) time.Duration { return max(0, s.waited-now.Sub(s.at)/forgiven) }

const (
	// answerTime is how long a file system may take to answer.
	answerTime = 2 * time.Second
	// changeShare is how many times as long a change may take, which may wait for those of others.
	changeShare = 3
	// A call that takes more than its time divided by quickShare counts as slow.
	quickShare = 10
	// forgiven and slowShare bound what a directory whose calls are slow again and again takes
	// of the others' time: slowShare times the time of an answer, and then one part in forgiven.
	forgiven  = 10
	slowShare = 4
	// maxSilent limits the directories with abandoned calls, each of which blocks a thread.
	maxSilent = 100
)

// errNoAnswer matches the error for a directory whose file system does not answer.
var errNoAnswer = errors.New("its file system does not answer: is the server that it is mounted from away, or is it frozen?")

// errSlow matches the error for a directory that is left out for a while.
var errSlow = errors.New("its file system answers slowly again and again: its files wait, so that others need not")

// unanswered reports whether a directory was not used, or it is not known what has become of a
// call, because its file system does not answer in time.
func unanswered(err error) bool { return errors.Is(err, errNoAnswer) || errors.Is(err, errSlow) }

func newAnswers() *answers {
	return &answers{patience: answerTime, silent: map[string]int{}, slow: map[string]slowness{}}
}

// open opens a directory, or returns an error if its file system does not respond in time.
func (a *answers) open(dir string) (*folder, error) {
	if err := a.check(dir); err != nil {
		return nil, err
	}
	return within(a, a.patience, dir, func() (*folder, error) { return openFolder(dir) }, func(f *folder, late bool) {
		if late && f != nil {
			_ = f.close() // nothing was written to it
		}
	})
}

// check returns an error if a directory does not answer.
func (a *answers) check(dir string) error {
	if err := a.admit(dir); err != nil {
		return err
	}
	_, err := within(a, a.patience, dir, func() (struct{}, error) {
		var stat unix.Statfs_t
		_ = unix.Statfs(dir, &stat) // an error is a response, too; statfs is not served from a cache
		return struct{}{}, nil
	}, nil)
	return err
}

// ask calls look with a copy of f. It returns an error if the directory does not respond.
func ask[T any](a *answers, f *folder, look func(f *folder) (T, error)) (T, error) {
	return askFor(a, a.patience, f, look, nil)
}

// change calls do with a copy of f, to change something in the directory. A file system that is
// frozen responds, but not to that. If do returns too late, undo, if not nil, is called with its
// result.
func change[T any](t *Target, f *folder, do func(f *folder) (T, error), undo func(f *folder, done T)) (T, error) {
	return askFor(t.answers, changeShare*t.answers.patience, f, func(f *folder) (T, error) {
		t.reached("change in " + f.path)
		return do(f)
	}, undo)
}

func askFor[T any](a *answers, patience time.Duration, f *folder, look func(f *folder) (T, error), undo func(f *folder, done T)) (answer T, err error) {
	if err := a.admit(f.path); err != nil {
		return answer, err
	}
	own := *f // f may be closed before look returns
	if own.fd, err = unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return answer, fmt.Errorf("directory %s: %w", f.path, err)
	}
	return within(a, patience, f.path, func() (T, error) { return look(&own) }, func(answer T, late bool) {
		if late && undo != nil {
			undo(&own, answer)
		}
		_ = own.close() // nothing was written to it
	})
}

// within calls fn, which uses an admitted directory, and returns its results, or an error if fn
// does not return in time. In that case the directory counts as silent until fn and after have
// returned. After, if not nil, is called with the result, and whether it came too late.
func within[T any](a *answers, patience time.Duration, dir string, fn func() (T, error), after func(answer T, late bool)) (answer T, err error) {
	type result struct {
		answer T
		err    error
	}
	results := make(chan result, 1)
	call := &call{dir: dir, began: time.Now(), patience: patience}
	go func() {
		answer, err := fn()
		late := a.ended(call)
		if after != nil {
			after(answer, late)
		}
		if late {
			a.answered(dir)
		}
		results <- result{answer, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-timer.C:
	}
	if a.giveUp(call) {
		return answer, fmt.Errorf("directory %s: %w", dir, errNoAnswer)
	}
	r := <-results
	return r.answer, r.err
}

// call is one use of a directory.
type call struct {
	dir            string
	began          time.Time
	patience       time.Duration
	ended, givenUp bool
}

// ended records that a call has returned, and reports whether it had been abandoned.
func (a *answers) ended(c *call) (late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.ended = true; !c.givenUp {
		a.countLocked(c)
	}
	return c.givenUp
}

// giveUp abandons a call, unless it has returned. It reports whether it did.
func (a *answers) giveUp(c *call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.ended {
		return false
	}
	c.givenUp = true
	a.silent[c.dir]++
	a.countLocked(c)
	return true
}

// answered records that an abandoned call for a directory is over.
func (a *answers) answered(dir string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent[dir]--; a.silent[dir] == 0 {
		delete(a.silent, dir)
	}
}

// countLocked adds the time of a call, if it was slow, to what its directory has taken. Calls at
// the same time count once.
func (a *answers) countLocked(c *call) {
	now := time.Now()
	if now.Sub(c.began) < c.patience/quickShare {
		return
	}
	for dir, s := range a.slow {
		if s.left(now) == 0 {
			delete(a.slow, dir)
		}
	}
	s := a.slow[c.dir]
	from := c.began
	if s.at.After(from) {
		from = s.at
	}
	a.slow[c.dir] = slowness{s.left(now) + now.Sub(from), now}
}

// admit returns an error if an abandoned call for the directory has not returned yet, if its
// calls were slow again and again, or if there are abandoned calls for too many others.
func (a *answers) admit(dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch others := len(a.silent); {
	case a.silent[dir] > 0:
		return fmt.Errorf("directory %s: %w", dir, errNoAnswer)
	case a.slow[dir].left(time.Now()) > slowShare*a.patience:
		return fmt.Errorf("directory %s: %w", dir, errSlow)
	case others >= maxSilent:
		return fmt.Errorf("directory %s is not used while %d others do not answer: %w", dir, others, errNoAnswer)
	}
	return nil
}
