package file

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/statedb"
)

// state is the state that a source has published in the tables and in the log. It is immutable.
type state struct {
	held        map[id]*document // the documents whose rows are in the tables
	shown       map[string]shown // by path
	incomplete  string
	unconfirmed bool // rows stay in force until documents are back or an operator approves
	filtered    bool // documents are in force, but filters drop all of them
	initialized bool
}

// apply updates the tables according to a listing, in one transaction.
func (s *Source) apply(ctx context.Context, l *listing) error {
	next, kept := s.next(l)
	inForce := s.inForce(l, next, kept)
	if inForce.Files > 0 {
		s.remember(inForce)
	}
	if !next.equal(s.published) {
		update := func(txn *statedb.WriteTxn) error { return s.write(txn, next) }
		if err := s.config.DB.Update(ctx, update, s.tables...); err != nil {
			return err
		}
	}
	s.accept(l, kept)
	s.report(next)
	s.published = next
	s.origins.Store(&next.held)
	if inForce.Files == 0 {
		s.remember(inForce)
	}
	return nil
}

// accept records the versions that are in force now, and their device. Kept is nil if nothing has
// changed.
func (s *Source) accept(l *listing, kept map[*fileState]*content) {
	if kept == nil {
		return
	}
	s.device = l.device
	for f, version := range kept {
		f.kept = version
	}
	maps.DeleteFunc(s.files, func(_ string, f *fileState) bool { return f.gone && !f.lost })
	s.known.Store(s.knownContents())
}

// next returns the state to publish after a listing, and the version of each file that
// is then in force; nil if nothing changes.
func (s *Source) next(l *listing) (state, map[*fileState]*content) {
	if l.err != nil {
		return s.withoutDirectory(l)
	}
	r := s.resolve(l)
	next := state{held: r.wanted, shown: map[string]shown{}, initialized: true}
	var missing []problem
	for _, f := range s.present() {
		if f.gone {
			if before, ok := s.published.shown[f.path]; ok {
				next.shown[f.path] = before
			}
			continue
		}
		if !s.isShown(f, l.at) {
			continue
		}
		next.shown[f.path] = s.published.shown[f.path].unlessSame(r.show(f, l.at), l.at)
		if kept := r.kept[f]; kept == nil || !kept.current(s.parser.filters) || !s.allValid && f.mayHaveMore() {
			missing = append(missing, whyMissing(f, next.shown[f.path]))
		}
	}
	for path, rows := range r.stayingOf() {
		now := showStaying(next.shown[path], path, rows, s.elsewhere.why)
		next.shown[path] = s.published.shown[path].unlessSame(now, l.at)
	}
	s.allValid = s.allValid || len(missing) == 0
	next.incomplete = reason(missing)
	next.filtered = len(next.held) == 0 && r.count().files > 0
	s.explainLoss(&next, l, r)
	s.last = r
	return next, r.kept
}

// resolve decides which versions are in force after a listing.
func (s *Source) resolve(l *listing) resolution {
	var mayStay map[id]*document
	if l.approved {
		s.approveLoss(l)
	} else {
		mayStay = s.mayBeElsewhere(l)
	}
	files, r := s.present(), s.last
	if !r.stands(files) {
		r = s.resolveWith(files, mayStay)
	}
	if len(r.wanted) == len(r.staying) && r.count().files == 0 && len(s.published.held) > 0 && !l.approved {
		s.lose()
		r = s.resolveWith(s.present(), mayStay)
	}
	for f, version := range r.kept {
		if f.lost = f.lost && len(version.docs) > 0; f.gone && !f.lost {
			delete(r.kept, f) // others declare its rows now
		}
	}
	return r
}

func (s *Source) resolveWith(files []*fileState, mayStay map[id]*document) resolution {
	r := resolve(files, s.published.held)
	r.stay(files, mayStay, s.elsewhere)
	return r
}

// isShown reports whether a file has been read, or has to be shown as being written: in the
// first listing, and when it has been written for long.
func (s *Source) isShown(f *fileState, at time.Time) bool {
	if f.now != nil || f.writtenLong(at) {
		return true
	}
	_, already := s.published.shown[f.path]
	return !f.busy.IsZero() && (already || !s.published.initialized)
}

// whyMissing returns why no version of a file is in force, or only a version that was evaluated with another filter, or one from before
// it was invalid. Until all files were valid once, documents that such a file has more than before may be in force from before the start.
func whyMissing(f *fileState, s shown) problem {
	if len(s.problems) > 0 {
		return s.problems[0]
	}
	message := "is being written, and has not been read yet"
	if f.now != nil {
		message = "has not been applied since a filter was changed"
	}
	return problem{at: place{file: f.path}, message: message}
}

// reason returns why rows may be missing: the first of the problems, and the number of other files
// with problems.
func reason(missing []problem) string {
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return missing[0].String()
	}
	return fmt.Sprintf("%v (and of %d more)", missing[0], len(missing)-1)
}

func (a state) equal(b state) bool {
	return a.initialized == b.initialized && a.incomplete == b.incomplete && a.unconfirmed == b.unconfirmed && maps.Equal(a.held, b.held) &&
		maps.EqualFunc(a.shown, b.shown, func(x, y shown) bool { return x.row == y.row })
}

// write changes the tables from the published state to next.
func (s *Source) write(txn *statedb.WriteTxn, next state) error {
	for i, d := range s.published.held {
		if next.held[i] == nil {
			if err := d.of.remove(txn, d.row); err != nil {
				return err
			}
		}
	}
	for _, d := range next.newDocuments(s.published) {
		if err := d.of.insert(txn, d.row); err != nil {
			return fmt.Errorf("%v: %w", d.at, err)
		}
	}
	if err := s.writeShown(txn, next.shown); err != nil {
		return err
	}
	return s.writeSource(txn, next)
}

// newDocuments returns the documents that before does not hold, in the order of their places.
func (a state) newDocuments(before state) []*document {
	var fresh []*document
	for i, d := range a.held {
		if before.held[i] != d {
			fresh = append(fresh, d)
		}
	}
	slices.SortFunc(fresh, func(a, b *document) int {
		return cmp.Or(strings.Compare(a.at.file, b.at.file), a.at.line-b.at.line, a.at.column-b.at.column)
	})
	return fresh
}

func (s *Source) writeShown(txn *statedb.WriteTxn, next map[string]shown) error {
	for path, before := range s.published.shown {
		if _, ok := next[path]; ok {
			continue
		}
		if _, _, err := s.documents.Delete(txn, before.row); err != nil {
			return err
		}
	}
	for _, f := range next {
		if _, _, err := s.documents.Insert(txn, f.row); err != nil {
			return err
		}
	}
	return nil
}

// writeSource updates the state of this source in the tables.
func (s *Source) writeSource(txn *statedb.WriteTxn, next state) error {
	for _, f := range s.feeds {
		if err := f.Incomplete(txn, next.incomplete); err != nil {
			return err
		}
		if !next.initialized {
			continue
		}
		if err := f.Initialized(txn); err != nil {
			return err
		}
	}
	return nil
}

// report logs the differences of next: each new problem once, and when all problems of a file have
// ended.
func (s *Source) report(next state) {
	for _, path := range slices.Sorted(maps.Keys(next.shown)) {
		before, now := s.published.shown[path].problems, next.shown[path].problems
		for _, p := range now {
			if !slices.Contains(before, p) {
				s.log.Error("Document refused", p.attributes()...)
			}
		}
		if len(before) > 0 && len(now) == 0 {
			s.log.Info("Documents are valid again", "file", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.published.shown)) {
		if _, still := next.shown[path]; !still && len(s.published.shown[path].problems) > 0 {
			s.log.Info("Refused documents are gone", "file", path)
		}
	}
	if !maps.Equal(s.published.held, next.held) || !s.published.initialized && next.initialized {
		s.log.Info("Documents applied", "files", len(next.shown), "rows", len(next.held))
	}
}
