package file

import "slices"

// Replacement has the rows of the documents that have taken the place of another one.
type Replacement struct {
	docs []*document
	keys []string
	rows []any
}

// Keys returns the keys of their rows, as text.
func (r *Replacement) Keys() []string { return r.keys }

// Rows returns their rows.
func (r *Replacement) Rows() []any { return r.rows }

// replaced are the replacements of documents by the ids of those. It is immutable.
type replaced map[id]*Replacement

// ReplacedBy returns what has taken the place of a document in its file, given the table and the key of its row, which was removed in the
// same change. It returns nil if nothing has, and the same pointer for documents with the same replacement, which must not be modified.
// ReplacedBy is safe for concurrent use.
func (s *Source) ReplacedBy(table, key string) *Replacement {
	all := s.replaced.Load()
	if all == nil {
		return nil
	}
	for _, k := range s.config.Kinds {
		if k.table().Name() == table {
			if r := (*all)[id{k, key}]; r != nil {
				return r
			}
		}
	}
	return nil
}

// replacements returns what takes the place of documents when next is published, and what still does. Kept has the
// versions of the files that are in force then.
func (s *Source) replacements(next state, kept map[*fileState]*content) replaced {
	fresh := replaced{}
	for f, version := range kept {
		if f.kept != nil && version != nil && f.kept != version {
			fresh.pair(f.kept, version, func(d *document) bool { return s.published.held[d.id] != nil && next.held[d.id] == nil },
				func(d *document) bool { return next.held[d.id] == d && s.published.held[d.id] == nil })
		}
	}
	before := s.replaced.Load()
	if before == nil {
		return fresh
	}
	keeps := func(*Replacement) bool { return true }
	if len(*before) > maxReplaced {
		keeps = s.waitsFor()
	}
	newest := map[*Replacement]*Replacement{}
	for old, by := range *before {
		if !keeps(by) {
			continue
		}
		now, known := newest[by]
		if !known {
			now = fresh.newest(by, next.held)
			newest[by] = now
		}
		if now != nil && next.held[old] == nil && fresh[old] == nil {
			fresh[old] = now
		}
	}
	return fresh
}

// maxReplaced is for how many documents it is remembered what has taken their place. If there are more, those are forgotten whose
// replacements are done: nothing waits for these.
const maxReplaced = 10000

// waitsFor returns a function that reports whether a row of a replacement is not done.
func (s *Source) waitsFor() func(*Replacement) bool {
	txn, known := s.config.DB.ReadTxn(), map[*Replacement]bool{}
	return func(r *Replacement) bool {
		is, have := known[r]
		if !have {
			is = slices.ContainsFunc(r.docs, func(d *document) bool { return d.of.isPending(txn, d.row) })
			known[r] = is
		}
		return is
	}
}

// replacementOf returns the replacement by documents; nil if there are none.
func replacementOf(docs []*document) *Replacement {
	if len(docs) == 0 {
		return nil
	}
	r := &Replacement{docs: docs}
	for _, d := range docs {
		r.keys, r.rows = append(r.keys, d.key), append(r.rows, d.row)
	}
	return r
}

// newest returns what stands in the place of a replacement now, or nil.
func (r replaced) newest(by *Replacement, held map[id]*document) *Replacement {
	var docs []*document
	seen, same := map[*document]bool{}, true
	followed := map[*Replacement]bool{}
	add := func(d *document) {
		if !seen[d] {
			seen[d] = true
			docs = append(docs, d)
		}
	}
	for _, d := range by.docs {
		switch now := held[d.id]; {
		case now != nil:
			same = same && now == d
			add(now)
		default:
			same = false
			if next := r[d.id]; next != nil && !followed[next] {
				followed[next] = true
				for _, d := range next.docs {
					add(d)
				}
			}
		}
	}
	if same {
		return by
	}
	return replacementOf(docs)
}

// maxTogether is how many documents that are new in one place each have all that are gone there wait for them.
const maxTogether = 100

// pair pairs the documents of a file that are gone with those of the same kind that are new between the same others: each with all, or,
// if there are many, and as many of both, one by one. Where nothing is new, those that are gone are paired with all that are new in the file.
func (r replaced) pair(before, after *content, gone, fresh func(*document) bool) {
	news, olds := runsOf(after.docs, idsOf(before.docs), fresh), runsOf(before.docs, idsOf(after.docs), gone)
	fileOf := map[Kind][]*document{}
	for at, in := range news {
		fileOf[at.of] = append(fileOf[at.of], in...)
	}
	others := map[Kind]*Replacement{}
	for k, in := range fileOf {
		others[k] = replacementOf(in)
	}
	for at, olds := range olds {
		in := news[at]
		all := replacementOf(in)
		if all == nil {
			all = others[at.of]
		}
		for i, old := range olds {
			if len(in) == len(olds) && len(in) > maxTogether {
				r[old.id] = replacementOf(in[i : i+1])
			} else if all != nil {
				r[old.id] = all
			}
		}
	}
}

func idsOf(docs []*document) map[id]bool {
	ids := make(map[id]bool, len(docs))
	for _, d := range docs {
		ids[d.id] = true
	}
	return ids
}

// runsOf returns the chosen documents, in order, by the document of the same kind with one of the ids that comes next; that of the last
// ones has no key.
func runsOf(docs []*document, ends map[id]bool, chosen func(*document) bool) map[id][]*document {
	all, open := map[id][]*document{}, map[Kind][]*document{}
	for _, d := range docs {
		switch {
		case ends[d.id]:
			all[d.id], open[d.of] = open[d.of], nil
		case chosen(d):
			open[d.of] = append(open[d.of], d)
		}
	}
	for k, run := range open {
		all[id{of: k}] = run
	}
	return all
}
