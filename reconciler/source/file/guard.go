package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"syscall"
)

// A directory that is empty or gone has more often been lost than emptied on purpose.
// So rows stay in force when it is gone, is on another device, or no longer has any
// documents, until there are documents again or an operator approves.

var errOtherDevice = errors.New("the directory is on another device than before: it was unmounted, or something is mounted over it")

// absent reports whether an error of listing a directory means that it does not exist.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// checkDevice refuses a directory on another device than the one that the rows in force are
// from, unless all of their files are unchanged: some file systems get another device number
// whenever they are mounted.
func (s *Source) checkDevice(l *listing) error {
	if len(s.published.held) == 0 || l.device == s.device || s.sameFiles(l) {
		return nil
	}
	if l.approved {
		l.confirmed = true
		return nil
	}
	return errOtherDevice
}

// sameFiles reports whether the listing has found all files as their versions in force.
func (s *Source) sameFiles(l *listing) bool {
	for path, f := range s.files {
		if f.kept == nil || len(f.kept.docs) == 0 {
			continue
		}
		if found := l.found[path]; found == nil || found.sum != f.kept.sum {
			return false
		}
	}
	return true
}

// vanished reports whether next would end all rows in force, of this run or of the previous
// one, without an approval.
func (s *Source) vanished(l *listing, next state) bool {
	lost := len(s.published.held) > 0 || s.recalled && next.incomplete == ""
	if len(next.held) > 0 || next.filtered || !lost {
		return false
	}
	if l.approved {
		l.confirmed = true
	}
	return !l.approved
}

// withoutDocuments returns a state that leaves all rows in force although no documents were found.
func (s *Source) withoutDocuments(l *listing, r resolution) state {
	next := state{held: s.published.held, shown: map[string]shown{}, unconfirmed: true, initialized: true}
	for _, f := range s.sorted() {
		before, already := s.published.shown[f.path]
		switch r.kept[f] = f.kept; {
		case f.gone && !already: // it was being written and was never shown
		case f.gone:
			next.shown[f.path] = before
		case s.isShown(f, l.at):
			next.shown[f.path] = before.unlessSame(r.show(f, l.at), l.at)
		}
	}
	s.explain(&next, l, s.lossMessage())
	return next
}

func (s *Source) lossMessage() string {
	if n := len(s.published.held); n > 0 {
		return "the directory no longer has any documents; " + staysInForce(n) + untilApproved
	}
	return "the directory has no documents, but rows were in force in the previous run; none of them is removed" + untilApproved
}

const untilApproved = " until documents are back or this is approved (approve documents)"

func staysInForce(rows int) string {
	if rows == 1 {
		return "1 row stays in force"
	}
	return fmt.Sprintf("%d rows stay in force", rows)
}

// explain adds a problem of the directory itself, which is why rows may be missing.
func (s *Source) explain(next *state, l *listing, message string) {
	dir := s.config.Dir
	p := problem{at: place{file: dir}, message: message}
	next.incomplete = p.String()
	row := shown{row: Document{File: dir, State: Error}, problems: []problem{p}}
	next.shown[dir] = s.published.shown[dir].unlessSame(row, l.at)
}

// withoutDirectory returns a state that leaves all rows in force, unless the absence of the directory
// was approved.
func (s *Source) withoutDirectory(l *listing) (state, map[*fileState]*content) {
	next := s.published
	next.shown = maps.Clone(s.published.shown)
	if next.shown == nil {
		next.shown = map[string]shown{}
	}
	message := s.unreadMessage(&next, l)
	if l.approved && next.unconfirmed {
		return s.withdrawn(l), map[*fileState]*content{}
	}
	s.explain(&next, l, message)
	if s.goneIsFine && absent(l.err) {
		next.incomplete = ""
	}
	return next, nil
}

// unreadMessage returns why the directory was not read, and what happens to the rows
// that are in force.
func (s *Source) unreadMessage(next *state, l *listing) string {
	message := "the directory cannot be listed: " + withoutPath(l.err).Error()
	if errors.Is(l.err, errOtherDevice) {
		message = l.err.Error()
	}
	next.unconfirmed = (len(next.held) > 0 || s.recalled) && (absent(l.err) || errors.Is(l.err, errOtherDevice))
	switch {
	case len(next.held) == 0:
		return message
	case next.unconfirmed:
		return message + "; " + staysInForce(len(next.held)) + untilApproved
	}
	return message + "; " + staysInForce(len(next.held)) + " until it can be"
}

// withdrawn returns the state after the absence of the directory was approved.
func (s *Source) withdrawn(l *listing) state {
	l.confirmed, s.goneIsFine = true, true
	for _, f := range s.files {
		f.gone = true
	}
	next := state{held: map[id]*document{}, shown: map[string]shown{}, initialized: true}
	s.explain(&next, l, "the directory cannot be listed: "+withoutPath(l.err).Error())
	next.incomplete = ""
	return next
}

// endsMemory reports whether it is intended that no rows are in force: because of an approval, or
// because filters drop all documents.
func (s *Source) endsMemory(l *listing, next state) bool {
	dropped := next.filtered && next.incomplete == "" && (s.remembered || s.recalled)
	return len(next.held) == 0 && (l.confirmed || dropped)
}

// remember records in Memory whether rows are in force.
func (s *Source) remember(inForce bool) {
	s.recalled = false
	if s.config.Memory == nil || inForce && s.remembered {
		return
	}
	err := s.config.Memory.SetInForce(inForce)
	s.remembered = inForce && err == nil
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.memoryError && text != "" {
		s.log.Warn("Cannot remember that documents are in force: an empty directory at the next start will be taken as the desired state", "error", text)
	}
	s.memoryError = text
}
