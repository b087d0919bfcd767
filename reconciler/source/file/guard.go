package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/statehive/statehive/internal/trusted"
)

// A directory that is empty or gone has more often been lost than emptied on purpose.
// So rows stay in force when it is gone, is on another device, or no longer has any
// documents, until the file of each is back, another file declares it, or an operator approves.
// A restart in between does not change that: until as many files are back, no orphans are removed. Nor are they
// after a restart with another directory, until an operator approves: it may be that of another machine.

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

// lose keeps the rows that are in force until their files are back.
func (s *Source) lose() {
	kept := map[*document]bool{}
	for _, f := range s.files {
		if f.kept == nil {
			continue
		}
		f.lost = len(f.kept.docs) > 0
		for _, d := range f.kept.docs {
			kept[d] = true
		}
	}
	for _, d := range s.published.held {
		if !kept[d] { // see hold and stay
			s.loseRow(d)
		}
	}
}

func (s *Source) loseRow(d *document) {
	f := s.files[d.at.file]
	if f == nil {
		f = &fileState{path: d.at.file, gone: true}
		s.files[f.path] = f
	}
	version := &content{total: 1}
	if f.kept != nil {
		version.total, version.size = f.kept.total, f.kept.size
		version.docs = slices.Clone(f.kept.docs)
	}
	version.docs = append(version.docs, d)
	f.kept, f.lost = version, true
}

// elsewhere is where documents may be that files no longer declare: in files that are refused or being written.
type elsewhere struct {
	why        string               // names one of the files; "" if there is none
	anything   bool                 // one of them has changed since the start, so that whole files may have moved there
	mayDeclare func(*document) bool // reports whether one of them may declare a row
}

// mayBeElsewhere returns the rows in force that stay if no file declares them any more: all while there is a file that may, and those
// that have stayed for a moment more, because that file may be about to be replaced.
func (s *Source) mayBeElsewhere(l *listing) map[id]*document {
	now := s.findElsewhere(l)
	if now.why != "" {
		s.elsewhere, s.clearSince = now, time.Time{}
		return s.published.held
	}
	if s.clearSince.IsZero() {
		s.clearSince = l.at
	}
	left := s.lossDelay() - l.at.Sub(s.clearSince)
	if len(s.last.staying) == 0 || left <= 0 {
		return nil
	}
	l.again = min(l.again, left)
	return s.last.staying
}

func (s *Source) findElsewhere(l *listing) (found elsewhere) {
	var contents []*content
	add := func(c *content, anything bool, path, what string) {
		if found.why == "" || anything && !found.anything {
			found.why = trusted.Name(filepath.Base(path)) + what
		}
		found.anything = found.anything || anything
		contents = append(contents, c)
	}
	for _, f := range s.sorted() {
		if c := f.refused(); c != nil {
			add(c, c != f.now || !f.early, f.path, " is refused")
		}
	}
	for _, path := range slices.Concat(slices.Sorted(maps.Keys(l.busy)), l.copies) {
		add(unknown, true, path, " is being written")
	}
	found.mayDeclare = mayDeclare(contents)
	return found
}

// approveLoss accepts that files were lost.
func (s *Source) approveLoss(l *listing) {
	for _, f := range s.files {
		l.confirmed = l.confirmed || f.lost
		f.lost = false
	}
	l.confirmed = l.confirmed || s.recalled.Lost || s.recalled.Dir != "" || len(s.last.staying) > 0
	s.recalled = InForce{}
}

// explainLoss sets why rows may be missing, if files were lost and are not back.
func (s *Source) explainLoss(next *state, l *listing, r resolution) {
	n := r.count()
	if n.lostFiles == 0 {
		n.lostFiles = s.missing(n.files, *next)
	}
	next.unconfirmed = n.lostFiles > 0 || len(r.staying) > 0 || s.recalled.Dir != ""
	if n.lostFiles == 0 {
		if was := s.recalled.Dir; was != "" {
			refused := next.incomplete
			s.explain(next, l, fmt.Sprintf("in the previous run, documents were in %s; none of their rows is removed until this directory is approved (approve documents)",
				trusted.Name(was)))
			next.incomplete = cmp.Or(refused, next.incomplete)
		}
		return
	}
	what := "the directory no longer has any documents; "
	rows := staysInForce(n.lostRows)
	switch {
	case n.files > 0:
		what = fmt.Sprintf("the directory had lost its documents, and %d of %d files are back; ", n.files, n.files+n.lostFiles)
		if n.lostRows == 0 {
			rows = "no row of the others is removed"
		}
	case n.lostRows == 0:
		what = "the directory has no documents, but rows were in force in the previous run; "
		rows = "none of them is removed"
	}
	refused := next.incomplete
	if s.explain(next, l, what+rows+untilApproved); n.lostRows == 0 && refused != "" {
		next.incomplete = refused
	}
}

// missing returns how many files of the previous run were lost and are not back.
func (s *Source) missing(back int, next state) int {
	if back == 0 && next.incomplete == "" {
		s.recalled.Lost = s.recalled.Files > 0
	}
	if back > 0 && !s.recalled.Lost || back >= s.recalled.Files {
		s.recalled = InForce{Dir: s.recalled.Dir}
	}
	if !s.recalled.Lost {
		return 0
	}
	return s.recalled.Files - back
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
	if next.unconfirmed {
		s.lose()
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
	next.unconfirmed = (len(next.held) > 0 || s.recalled.Files > 0) && (absent(l.err) || errors.Is(l.err, errOtherDevice))
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
	s.approveLoss(l)
	l.confirmed, s.goneIsFine = true, true
	for _, f := range s.files {
		f.gone = true
	}
	next := state{held: map[id]*document{}, shown: map[string]shown{}, initialized: true}
	s.explain(&next, l, "the directory cannot be listed: "+withoutPath(l.err).Error())
	next.incomplete = ""
	return next
}

// recall sets what was in force in the previous run.
func (s *Source) recall(was InForce) {
	s.remembered = was
	if was.Files == 0 || was.Dir == s.config.Dir {
		was.Dir = ""
	}
	s.recalled = was
}

// inForce returns what Memory has to store after a listing. That is nothing if it is intended that no rows are in
// force: because of an approval, or because filters drop all documents.
func (s *Source) inForce(l *listing, next state, kept map[*fileState]*content) InForce {
	if kept == nil {
		kept = map[*fileState]*content{}
		for _, f := range s.files {
			kept[f] = f.kept
		}
	}
	n := resolution{kept: kept}.count()
	files := n.files + n.lostFiles
	dir := cmp.Or(s.recalled.Dir, s.config.Dir)
	switch dropped := next.filtered && next.incomplete == ""; {
	case s.recalled.Lost:
		return InForce{Files: max(files, s.recalled.Files), Lost: true, Dir: dir}
	case len(next.held) > 0:
		return InForce{Files: files, Lost: n.lostFiles > 0, Dir: dir}
	case l.confirmed || dropped:
		return InForce{}
	}
	return s.remembered
}

// remember stores in Memory what is in force.
func (s *Source) remember(now InForce) {
	if s.config.Memory == nil || now == s.remembered {
		return
	}
	err := s.config.Memory.SetInForce(now)
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		s.remembered = now
	}
	if text != s.memoryError && text != "" {
		s.log.Warn("Cannot remember that documents are in force: an empty directory at the next start will be taken as the desired state", "error", text)
	}
	s.memoryError = text
}
