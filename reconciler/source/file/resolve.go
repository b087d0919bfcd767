package file

import (
	"crypto/sha256"
	"slices"
	"time"
)

// fileState is the state of one file.
type fileState struct {
	activity

	path string
	// now is the content of the file that is believed; nil at first.
	now *content
	// kept is the version in force; nil if there is none.
	kept *content
	// doubt is since when the file has been found worse than now; zero if it has not.
	doubt time.Time
	// leaving reports whether the file was found to be absent or empty.
	leaving bool
	// gone reports whether the file is believed to be absent. It is forgotten when the
	// consequences of that are in force.
	gone bool
	// postponed is since when a new version waits because losses of other files are in doubt, or because it drops documents while others
	// are being written; zero if none does.
	postponed time.Time
	// lost reports whether the file went together with all others. Its rows stay in force until
	// it is back, until other files declare them, or until the loss is approved.
	lost bool
	// early reports whether now is what the first listing found.
	early bool
}

// refused returns the content of the file if it is invalid, or seems to be, and may declare what other files declared before; otherwise
// nil. A version that was invalid already at the start counts only if it is known what it declares.
func (f *fileState) refused() *content {
	switch {
	case !f.doubt.IsZero() && !f.leaving:
		return unknown
	case f.gone || f.now == nil || f.now.good() || f.early && f.now.mayBeAny():
		return nil
	}
	return f.now
}

// mayHaveMore reports whether the file is invalid, and may have more documents than its version in force.
func (f *fileState) mayHaveMore() bool {
	return f.now != nil && !f.now.good() && (f.now.unread || f.now.total == 0 || f.now.total > f.kept.total)
}

// keepsRows reports whether the rows of the version in force stay although the file is absent or empty.
func (f *fileState) keepsRows() bool { return f.leaving || f.lost }

// sizeInForce returns the size of the version in force.
func (f *fileState) sizeInForce() int64 {
	if f.kept == nil {
		return 0
	}
	return int64(f.kept.size)
}

// known returns the content with that checksum if it is in use, or nil.
func (f *fileState) known(sum [sha256.Size]byte) *content {
	for _, c := range []*content{f.now, f.kept} {
		if c != nil && c.sum == sum {
			return c
		}
	}
	return nil
}

// suspect records whether the content that was found, nil if the file is absent, is worse
// than the content before.
func (f *fileState) suspect(found *content, now time.Time) {
	if !f.worse(found) {
		f.doubt, f.leaving = time.Time{}, false
		return
	}
	if f.doubt.IsZero() {
		f.doubt = now
	}
	f.leaving = found == nil || found.good()
}

// postpone leaves a file that is being written as it was.
func (f *fileState) postpone() { f.doubt, f.leaving, f.gone = time.Time{}, false, false }

// believe makes the content that was found the current one. Early reports whether that is in the first listing.
func (f *fileState) believe(found *content, early bool) {
	f.doubt, f.postponed, f.leaving, f.gone = time.Time{}, time.Time{}, false, found == nil
	if found != nil {
		f.early = early || f.early && f.now.sum == found.sum
		f.now = found
		f.lost = f.lost && found.good() && found.total == 0
	}
}

// newestLoss returns when the last of the files that are absent or empty was first found so. It
// returns the time of the listing if a file is being written: it may become shorter, or declare what the others did.
func newestLoss(files []*fileState, l *listing) (newest time.Time) {
	if len(l.busy)+len(l.copies) > 0 {
		return l.at
	}
	for _, f := range files {
		if f.leaving && f.doubt.After(newest) {
			newest = f.doubt
		}
	}
	return newest
}

// doubtful returns for how much longer a file is in doubt. Losses are believed when no
// other loss has been found for delay, so that files that are removed one after the other
// count together, but after ten times delay at the latest.
func (f *fileState) doubtful(at, newestLoss time.Time, delay time.Duration) time.Duration {
	switch {
	case f.doubt.IsZero():
		return 0
	case !f.leaving:
		return delay - at.Sub(f.doubt)
	}
	return min(delay-at.Sub(newestLoss), 10*delay-at.Sub(f.doubt))
}

// drops reports whether a version that was found lacks documents of the one in force.
func (f *fileState) drops(found *content) bool {
	if f.kept == nil || found == nil || found == f.now || !found.good() || found.sum == f.kept.sum {
		return false
	}
	there := make(map[id]bool, len(found.docs))
	for _, d := range found.docs {
		there[d.id] = true
	}
	return slices.ContainsFunc(f.kept.docs, func(d *document) bool { return !there[d.id] })
}

// follows returns for how much longer a new version waits for losses of other files that are in doubt: what was done after them
// must not be in force before them. It also waits for files that are being written if it lacks documents that may be moving there.
// The time is limited, in case the losses or the writing never end.
func (f *fileState) follows(found *content, at time.Time, doubt, delay time.Duration) time.Duration {
	if f.kept == nil || found == f.now {
		return 0
	}
	if f.postponed.IsZero() {
		f.postponed = at
	}
	return min(doubt, 10*delay-at.Sub(f.postponed))
}

// worse reports whether what was found may be the middle of a change.
func (f *fileState) worse(found *content) bool {
	switch {
	case found == nil:
		return (f.kept != nil || f.now != nil) && !f.gone
	case !found.good():
		return f.now == nil || f.now.good()
	default:
		wasRefused, emptyAlready := f.now != nil && !f.now.good(), f.now != nil && f.now.good() && f.now.total == 0
		return found.total == 0 && (wasRefused || f.kept != nil && f.kept.total > 0) && !emptyAlready
	}
}

// resolution is the result of resolving the contents of all files.
type resolution struct {
	wanted   map[id]*document
	kept     map[*fileState]*content
	problems map[*fileState][]problem // keys that are also declared elsewhere
	staying  map[id]*document         // the rows in force that no file declares any more
}

// resolve decides which version of each file is in force. Held are the documents
// that have been in force so far.
func resolve(files []*fileState, held map[id]*document) resolution {
	r := resolution{wanted: map[id]*document{}, kept: map[*fileState]*content{}, problems: map[*fileState][]problem{}}
	for _, f := range files {
		switch {
		case f.keepsRows():
		case f.now != nil && f.now.good():
			r.kept[f] = f.now
		default:
			r.kept[f] = f.kept
		}
	}
	r.refuse(files)
	for _, f := range files {
		r.want(r.kept[f])
	}
	r.letGo(files)
	r.hold(files, held)
	return r
}

// stands reports whether the resolution is still valid for files: they are the same files, and
// the content of each is in force and has not changed.
func (r resolution) stands(files []*fileState) bool {
	if r.kept == nil || len(files) != len(r.kept) || len(r.problems) > 0 || len(r.staying) > 0 {
		return false
	}
	for _, f := range files {
		if f.keepsRows() || f.now == nil || f.now != f.kept || f.now != r.kept[f] {
			return false
		}
	}
	return true
}

// count is what a resolution has in force.
type count struct {
	files               int // that have documents, even if filters drop them, and were not lost
	lostFiles, lostRows int
}

func (r resolution) count() (n count) {
	for f, version := range r.kept {
		switch {
		case f.lost:
			n.lostFiles++
			n.lostRows += len(version.docs)
		case version != nil && version.total > 0:
			n.files++
		}
	}
	return n
}

// refuse drops new versions until no key is declared twice. A version in force is
// never refused, because such versions have no keys in common.
func (r resolution) refuse(files []*fileState) {
	told := map[*document]bool{}
	for refused := true; refused; {
		refused = false
		claims := r.claims(files)
		for _, f := range files {
			version := r.kept[f]
			if version == nil || version != f.now {
				continue
			}
			conflict := false
			for _, d := range version.docs {
				rival := claims.rivalOf(d)
				if rival == nil {
					continue
				}
				conflict = true
				if !told[d] {
					told[d] = true
					r.report(f, d, rival)
				}
			}
			if conflict && version != f.kept {
				r.kept[f] = f.kept
				refused = true
			}
		}
	}
}

// report adds the problem that a document of a file has a rival, up to a limit.
func (r resolution) report(f *fileState, d, rival *document) {
	switch n := len(r.problems[f]); {
	case n < maxProblems:
		r.problems[f] = append(r.problems[f], d.taken(rival.at).short())
	case n == maxProblems:
		r.problems[f] = append(r.problems[f], problem{at: place{file: f.path}, message: "more such errors are left out"})
	}
}

// claims returns the documents that declare each key.
func (r resolution) claims(files []*fileState) claims {
	all := newClaims(len(r.wanted))
	for _, f := range files {
		if version := r.kept[f]; version != nil {
			for _, d := range version.docs {
				all.add(d)
			}
		}
	}
	return all
}

// claims are the first two documents of each key.
type claims struct{ first, second map[id]*document }

func newClaims(n int) claims { return claims{make(map[id]*document, n), map[id]*document{}} }

func (c claims) add(d *document) {
	switch first := c.first[d.id]; {
	case first == nil:
		c.first[d.id] = d
	case c.second[d.id] == nil:
		c.second[d.id] = d
	}
}

// rivalOf returns the first other document with the same key, or nil.
func (c claims) rivalOf(d *document) *document {
	if first := c.first[d.id]; first != d {
		return first
	}
	return c.second[d.id]
}

func (r resolution) want(version *content) {
	if version == nil {
		return
	}
	for _, d := range version.docs {
		r.wanted[d.id] = d
	}
}

// letGo keeps the rows of files that seem to be absent or empty, or were lost, except for rows
// that another file declares now.
func (r resolution) letGo(files []*fileState) {
	for _, f := range files {
		if !f.keepsRows() || f.kept == nil {
			continue
		}
		rest := &content{total: f.kept.total, size: f.kept.size}
		for _, d := range f.kept.docs {
			if r.wanted[d.id] == nil {
				rest.docs = append(rest.docs, d)
			}
		}
		r.kept[f] = f.kept
		if len(rest.docs) < len(f.kept.docs) {
			r.kept[f] = rest
		}
		r.want(rest)
	}
}

// hold keeps the rows in force that only refused versions declare: they are
// desired, whichever file will declare them in the end.
func (r resolution) hold(files []*fileState, held map[id]*document) {
	for _, f := range files {
		if f.now == nil || !f.now.good() || r.kept[f] == f.now {
			continue
		}
		for _, d := range f.now.docs {
			if in := held[d.id]; in != nil && r.wanted[d.id] == nil {
				r.wanted[d.id] = in
			}
		}
	}
}

// stay keeps those of the rows in force that no file declares any more and that others may declare. A file that still has documents
// has lost only those that another one may declare; one that is gone may have moved anywhere. What a filter has dropped does not stay.
func (r *resolution) stay(files []*fileState, rows map[id]*document, others elsewhere) {
	r.staying = map[id]*document{}
	if len(rows) == 0 {
		return
	}
	present := map[string]bool{} // the files with documents
	filtered := map[*document]bool{}
	for _, f := range files {
		switch now := r.kept[f]; {
		case now == nil || now.total == 0:
		case now != f.kept && f.kept != nil && f.kept.sum == now.sum:
			for _, d := range f.kept.docs {
				filtered[d] = true
			}
			fallthrough
		default:
			present[f.path] = true
		}
	}
	for i, d := range rows {
		if r.wanted[i] != nil || filtered[d] {
			continue
		}
		if others.anything && !present[d.at.file] || others.mayDeclare(d) {
			r.wanted[i], r.staying[i] = d, d
		}
	}
}

// stayingOf returns how many rows of each file stay in force that no file declares any more.
func (r resolution) stayingOf() map[string]int {
	rows := map[string]int{}
	for _, d := range r.staying {
		rows[d.at.file]++
	}
	return rows
}
