package file

// replaced are the documents that have taken the place of others in their files, by the ids of those. It is immutable.
type replaced map[id]*document

// ReplacedBy returns the key, as text, and the row of the document that has taken the place of another one in its file, given the table
// and the key of that one's row, which was removed in the same change. It returns "" if there is none. ReplacedBy is safe for concurrent
// use.
func (s *Source) ReplacedBy(table, key string) (by string, row any) {
	all := s.replaced.Load()
	if all == nil {
		return "", nil
	}
	for _, k := range s.config.Kinds {
		if k.table().Name() == table {
			if d := (*all)[id{k, key}]; d != nil {
				return d.key, d.row
			}
		}
	}
	return "", nil
}

// replacements returns the documents that take the place of others when next is published, and those that still do. Kept has the
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
	if before == nil || len(*before) > len(next.held)+maxReplaced {
		return fresh
	}
	for old, by := range *before {
		if by = fresh.newest(by, next.held); by != nil && next.held[old] == nil && fresh[old] == nil {
			fresh[old] = by
		}
	}
	return fresh
}

// maxReplaced is for how many more documents than there are rows it is remembered what has taken their place.
const maxReplaced = 1000

// newest returns the document in force that stands in the place of d now, or nil.
func (r replaced) newest(d *document, held map[id]*document) *document {
	if now := held[d.id]; now != nil {
		return now
	}
	return r[d.id]
}

// pair pairs the documents of a file that are gone with those of the same kind that are new between the same others.
func (r replaced) pair(before, after *content, gone, fresh func(*document) bool) {
	news := runsOf(after.docs, idsOf(before.docs), fresh)
	for at, olds := range runsOf(before.docs, idsOf(after.docs), gone) {
		for i, old := range olds {
			if in := news[at]; len(in) > 0 {
				r[old.id] = in[min(i, len(in)-1)]
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
