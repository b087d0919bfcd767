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
	w := &watcher{}
	defer func() { _ = w.close() }() // it only reads
	for {
		again, err := s.reload(ctx, w)
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

// listing is what one look at the directory found.
type listing struct {
	found map[string]*content // by path
	err   error               // the directory cannot be listed: nothing was found out
	at    time.Time
	again time.Duration // look again after this time at the latest
}

// reload looks at the directory once and applies what it finds. It returns when
// to look again at the latest.
func (s *Source) reload(ctx context.Context, follower follower) (time.Duration, error) {
	l := s.list(follower)
	if l.err == nil {
		s.doubt = time.Time{}
		s.take(&l)
	} else if !s.believable(&l) {
		return l.again, nil
	}
	return l.again, s.apply(ctx, l)
}

// believable says whether the directory cannot be listed for long enough.
func (s *Source) believable(l *listing) bool {
	if s.doubt.IsZero() {
		s.doubt = l.at
	}
	left := s.settle() - l.at.Sub(s.doubt)
	if left > 0 {
		l.again = left
	}
	return left <= 0
}

// settle is how long to doubt a loss: not at all before there is anything to lose.
func (s *Source) settle() time.Duration {
	if !s.told.initialized {
		return 0
	}
	return s.config.Settle
}

// follower is told what to watch: a *watcher, or nothing in tests.
type follower interface {
	follow(interest) (renewed bool, err error)
}

// list finds out what is in the directory. Watches are in place before anything
// that counts is read.
func (s *Source) list(follower follower) listing {
	l := listing{found: map[string]*content{}, at: time.Now(), again: s.config.Rescan}
	var paths []string
	for attempt, renewed := 0, true; renewed && attempt < 3; attempt++ {
		var err error
		paths, l.err = list(s.config.Dir)
		renewed, err = follower.follow(interestOf(s.config.Dir, paths))
		s.heed(err)
		if err != nil || renewed && attempt == 2 {
			l.again = min(l.again, impaired)
		}
	}
	if l.err != nil {
		l.again = min(l.again, impaired)
		return l
	}
	for _, path := range paths {
		if c := s.content(path); c != nil {
			l.found[path] = c
		}
	}
	return l
}

// heed logs, once, that changes may not be heard of.
func (s *Source) heed(err error) {
	deaf := ""
	if err != nil {
		deaf = err.Error()
	}
	if deaf != s.deaf && deaf != "" {
		s.config.Logger.Warn("Cannot watch all documents, looking at them every second", "error", deaf)
	}
	s.deaf = deaf
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
	for _, f := range s.sorted() {
		forget, again := f.look(l.found[f.path], l.at, s.settle())
		if forget {
			delete(s.files, f.path)
		}
		if again > 0 {
			l.again = min(l.again, again)
		}
	}
}

func (s *Source) sorted() []*fileState {
	return slices.SortedFunc(maps.Values(s.files), func(a, b *fileState) int { return strings.Compare(a.path, b.path) })
}
