package file

import "slices"

// Replacement is what has taken the place of a document: one or more others, with their rows. It is immutable.
type Replacement struct {
	docs []*document
	keys []string
	rows []any
}

// Keys returns the primary keys of the rows, as text. The slice must not be modified.
func (r *Replacement) Keys() []string { return r.keys }

// Rows returns the rows, in the order of Keys. The slice must not be modified.
func (r *Replacement) Rows() []any { return r.rows }

// replaced are the replacements of documents by the ids of those. It is immutable.
type replaced map[id]*Replacement

// ReplacedBy returns what has taken the place of a document in its file, given the table and the primary key, as text, of the row
// that was removed with it. It returns nil if nothing has, and the same pointer for documents with the same replacement. ReplacedBy is
// safe for concurrent use.
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
		keeps = s.notDone()
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

// notDone returns a function that reports whether a row of a replacement is not done.
func (s *Source) notDone() func(*Replacement) bool {
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

// maxTogether is the largest number of new documents in one place that all those gone from there wait for together, if there are as
// many of both.
const maxTogether = 100

// pair records what replaces the documents that are gone from a file: the new documents of the same kind between the same unchanged
// ones or, if there are many, and as many of both, one for each, in order. If there are none in that place, all new documents of the
// kind in the file do.
func (r replaced) pair(before, after *content, gone, fresh func(*document) bool) {
	news, olds := runsOf(after.docs, idsOf(before.docs), fresh), runsOf(before.docs, idsOf(after.docs), gone)
	fileOf := map[Kind][]*document{}
	for _, d := range after.docs {
		if fresh(d) {
			fileOf[d.of] = append(fileOf[d.of], d)
		}
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

// runsOf groups the chosen documents by what comes next: the document of the same kind with one of the ids. The id of the last group
// has no key. Each group is in order.
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
