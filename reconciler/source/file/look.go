package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Run reads the directory and follows it until ctx is done, which is not an
// error. It fails only if the tables cannot be written, and may then be called
// again.
func (s *Source) Run(ctx context.Context) error {
	w := &watcher{wake: s.approvals.wake}
	defer func() { _ = w.close() }() // it only reads
	s.approvals.open()
	defer s.approvals.close()
	for {
		again, err := s.turn(ctx, w)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take over documents of %s: %w", s.config.Dir, err)
		}
		w.wait(ctx, s.config.Quiet, again)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// turn looks, and answers who asks for an approval. It returns when to look again at the latest.
func (s *Source) turn(ctx context.Context, follower follower) (time.Duration, error) {
	again, err := s.reload(ctx, follower)
	if err != nil {
		return 0, err
	}
	sooner, err := s.answerApprovals(ctx, follower)
	return min(again, sooner), err
}

// listing is what one look at the directory found.
type listing struct {
	found  map[string]*content // by path
	device uint64              // that the directory is on
	err    error               // why the directory was not read
	at     time.Time
	again  time.Duration // look again after this time at the latest

	// approved: an operator wants what was found, even if nothing is left of what was
	// in force. confirmed: it needed that.
	approved, confirmed bool
}

// reload looks at the directory once and applies what it finds. It returns when
// to look again at the latest.
func (s *Source) reload(ctx context.Context, follower follower) (time.Duration, error) {
	var l listing
	s.list(&l, follower)
	err := s.process(ctx, &l)
	return l.again, err
}

// process takes in what was found and applies it.
func (s *Source) process(ctx context.Context, l *listing) error {
	if l.err == nil {
		s.doubt, s.goneIsFine = time.Time{}, false
		s.take(l)
	} else if !s.lasting(l) {
		return nil
	}
	return s.apply(ctx, l)
}

// lasting reports whether the directory cannot be read for long enough to say so.
func (s *Source) lasting(l *listing) bool {
	if s.doubt.IsZero() {
		s.doubt = l.at
	}
	left := s.lossDelay() - l.at.Sub(s.doubt)
	if left > 0 {
		l.again = left
	}
	return left <= 0 || l.approved
}

// lossDelay is how long a loss must last: no time at all before there is anything to lose.
func (s *Source) lossDelay() time.Duration {
	if !s.published.initialized {
		return 0
	}
	return s.config.Settle
}

// follower watches what is of interest: a *watcher, or unwatched.
type follower interface {
	follow(interest) (renewed bool, err error)
}

// unwatched is a follower that watches nothing.
type unwatched struct{}

func (unwatched) follow(interest) (bool, error) { return false, nil }

// list finds out what is in the directory. Watches are in place before anything
// that counts is read.
func (s *Source) list(l *listing, follower follower) {
	l.found, l.at, l.again = map[string]*content{}, time.Now(), s.config.Rescan
	var paths []string
	for attempt, renewed := 0, true; renewed && attempt < 3; attempt++ {
		var err error
		paths, l.err = s.listDir(l)
		renewed, err = follower.follow(interestOf(s.config.Dir, paths))
		s.logWatchError(err)
		if err != nil || renewed && attempt == 2 {
			l.again = min(l.again, impaired)
		}
	}
	for _, path := range paths {
		if c := s.content(path); c != nil {
			l.found[path] = c
		}
	}
	if l.err == nil {
		l.err = s.checkDevice(l)
	}
	if l.err != nil {
		l.again = min(l.again, impaired)
	}
}

// logWatchError logs, once, that changes may go unnoticed.
func (s *Source) logWatchError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.watchError && text != "" {
		s.config.Logger.Warn("Cannot watch all documents, looking at them every second", "error", text)
	}
	s.watchError = text
}

// content returns what a file says; nil when it is gone. What is known already
// is not parsed again.
func (s *Source) content(path string) *content {
	data, err := read(path, s.config.MaxFileSize)
	if errors.Is(err, errNoFile) {
		return nil
	}
	if err != nil {
		return unreadable(problem{at: place{file: path}, message: fmt.Sprintf("cannot be read: %v", err)})
	}
	if c := s.files[path].known(sha256.Sum256(data)); c != nil {
		return c
	}
	return s.parser.parse(path, data)
}

// take updates the files with what was found.
func (s *Source) take(l *listing) {
	for path := range l.found {
		if s.files[path] == nil {
			s.files[path] = &fileState{path: path}
		}
	}
	files := s.sorted()
	for _, f := range files {
		f.suspect(l.found[f.path], l.at)
	}
	newest := newestLoss(files)
	for _, f := range files {
		if left := f.doubtful(l.at, newest, s.lossDelay()); left > 0 {
			l.again = min(l.again, left)
		} else {
			f.believe(l.found[f.path])
		}
	}
}

// present returns the files that are there, or may be, in the order of their paths.
func (s *Source) present() []*fileState {
	return slices.DeleteFunc(s.sorted(), func(f *fileState) bool { return f.gone })
}

func (s *Source) sorted() []*fileState {
	return slices.SortedFunc(maps.Values(s.files), func(a, b *fileState) int { return strings.Compare(a.path, b.path) })
}
