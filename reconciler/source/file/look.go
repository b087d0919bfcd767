package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/loglimit"
)

// Run reads the directory and follows it until ctx is done, which is not an
// error. It returns an error only if the tables cannot be written. It may then be
// called again.
func (s *Source) Run(ctx context.Context) error {
	limit := loglimit.New(s.config.Logger.Handler(), loglimit.Options{})
	defer limit.Close()
	s.log = slog.New(limit)
	w := &watcher{wake: s.approvals.wake, directory: s.directory}
	defer func() { _ = w.close() }() // nothing was written
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

// Rescan makes Run read the directory now, and does not wait for it.
func (s *Source) Rescan() { s.approvals.wakeRun() }

// turn scans the directory once and answers requests for approval. It returns the time until the next
// scan at the latest.
func (s *Source) turn(ctx context.Context, follower follower) (time.Duration, error) {
	again, err := s.reload(ctx, follower)
	if err != nil {
		return 0, err
	}
	sooner, err := s.answerApprovals(ctx, follower)
	return min(again, sooner), err
}

// listing is the result of one scan of the directory.
type listing struct {
	found  map[string]*content // by path
	busy   map[string]bool     // paths of files that are being written
	copies []string            // paths of temporary files that are being written, see temporaryFile
	device uint64              // that the directory is on
	err    error               // why the directory was not read
	at     time.Time
	again  time.Duration // scan again after this time at the latest

	// approved reports whether an operator has approved the directory as it was found, even
	// if that ends all rows in force. confirmed reports whether the approval was needed.
	approved, confirmed bool
}

// reload scans the directory once and applies the result. It returns the time until
// the next scan at the latest.
func (s *Source) reload(ctx context.Context, follower follower) (time.Duration, error) {
	var l listing
	s.list(ctx, &l, follower)
	err := s.process(ctx, &l)
	return l.again, err
}

// process updates the files with a listing and applies the result.
func (s *Source) process(ctx context.Context, l *listing) error {
	if l.err == nil {
		s.doubt, s.goneIsFine = time.Time{}, false
		s.take(l)
	} else if !s.lasting(l) {
		return nil
	}
	if s.startsSoon(l) {
		return nil
	}
	return s.apply(ctx, l)
}

// startsSoon reports whether the first listing waits for files that are being written. It
// does not wait for long, because until then nothing is initialized.
func (s *Source) startsSoon(l *listing) bool {
	if s.began.IsZero() {
		s.began = l.at
	}
	return !s.published.initialized && len(l.busy) > 0 && l.at.Sub(s.began) < startGrace
}

// lasting reports whether the directory has been unreadable for long enough to report it.
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

// lossDelay returns how long a loss must last before it counts. It is 0 while there is nothing to lose.
func (s *Source) lossDelay() time.Duration {
	if !s.published.initialized {
		return 0
	}
	return s.config.Settle
}

// follower watches files and directories: a *watcher, or unwatched.
type follower interface {
	follow(interest) (renewed bool, err error)
	// written returns the paths of files for which writes were reported since the last call.
	written() map[string]bool
}

// unwatched is a follower that watches nothing.
type unwatched struct{}

func (unwatched) follow(interest) (bool, error) { return false, nil }
func (unwatched) written() map[string]bool      { return nil }

// list reads the directory. Watches are in place before it reads anything that
// counts, so that no later change is missed.
func (s *Source) list(ctx context.Context, l *listing, follower follower) {
	l.found, l.busy, l.again = map[string]*content{}, map[string]bool{}, s.config.Rescan
	s.parser.filters = s.filters.current()
	unsure := !s.published.initialized
	var paths []string
	var written map[string]bool
	for attempt, renewed := 0, true; renewed && attempt < 3; attempt++ {
		is := s.listDir(ctx)
		if paths, l.copies, l.device, l.err, l.at = is.paths, is.copies, is.device, is.err, time.Now(); errors.Is(l.err, errSilent) {
			l.again = impaired
			return
		}
		if attempt == 0 {
			written = follower.written()
		}
		var err error
		renewed, err = follower.follow(interestOf(s.config.Dir, paths))
		s.logWatchError(err)
		unsure = unsure || renewed || err != nil
		if err != nil || renewed && attempt == 2 {
			l.again = min(l.again, impaired)
		}
	}
	for _, path := range paths {
		s.examine(l, path, circumstances{at: l.at, written: wasWritten(written, path), unsure: unsure})
	}
	l.copies = slices.DeleteFunc(l.copies, func(path string) bool { return !s.isWritten(path) })
	if len(l.copies) > 0 {
		l.again = min(l.again, copyCheck)
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
		s.log.Warn("Cannot watch all documents, checking them every second", "error", text)
	}
	s.watchError = text
}

// wasWritten reports whether writes to a file were reported, possibly under another of its names.
func wasWritten(written map[string]bool, path string) bool {
	if len(written) == 0 || written[path] {
		return written[path]
	}
	end, _ := trail(path)
	return written[end]
}

// examine adds the contents of a file to a listing, or nothing if the file is gone.
func (s *Source) examine(l *listing, path string, c circumstances) {
	f := s.files[path]
	if f == nil {
		f = &fileState{path: path}
		s.files[path] = f
	}
	data, err := s.read(path, f, c)
	var busy *busyError
	if errors.As(err, &busy) {
		l.busy[path] = true
		again := f.activity.writing(c.at)
		if busy.again > 0 && !f.writtenLong(c.at) {
			again = busy.again
		}
		l.again = min(l.again, again)
		return
	}
	f.busy = time.Time{}
	switch {
	case errors.Is(err, errNoFile):
	case err != nil:
		l.found[path] = unreadable(cannotBeRead(path, err))
	default:
		l.found[path] = s.content(f, data)
	}
}

// content returns the parsed data. Known data is not parsed again, unless a filter has changed.
func (s *Source) content(f *fileState, data []byte) *content {
	known := f.known(sha256.Sum256(data))
	if known != nil && known.current(s.parser.filters) {
		return known
	}
	c := s.parser.parse(f.path, data)
	c.reuse(known)
	return c
}

// take updates the files with the contents of a listing.
func (s *Source) take(l *listing) {
	files := s.sorted()
	for _, f := range files {
		if l.busy[f.path] {
			f.postpone()
		} else {
			f.suspect(l.found[f.path], l.at)
		}
	}
	newest, doubt := newestLoss(files, l), time.Duration(0)
	for _, f := range files {
		if f.leaving {
			doubt = max(doubt, f.doubtful(l.at, newest, s.lossDelay()))
		}
	}
	for _, f := range files {
		if l.busy[f.path] {
			continue
		}
		found := l.found[f.path]
		left := f.doubtful(l.at, newest, s.lossDelay())
		wait := doubt
		if len(l.busy)+len(l.copies) > 0 && f.drops(found) {
			wait = s.lossDelay()
		}
		if left <= 0 && wait > 0 {
			left = f.follows(found, l.at, wait, s.lossDelay())
		}
		if left > 0 {
			l.again = min(l.again, left)
		} else {
			f.believe(found, !s.published.initialized)
		}
	}
}

// present returns the files that exist or may exist, or were lost, in the order of their paths.
func (s *Source) present() []*fileState {
	return slices.DeleteFunc(s.sorted(), func(f *fileState) bool { return f.gone && !f.lost })
}

func (s *Source) sorted() []*fileState {
	return slices.SortedFunc(maps.Values(s.files), func(a, b *fileState) int { return strings.Compare(a.path, b.path) })
}
