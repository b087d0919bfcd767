package file

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
)

// SetFilter replaces the filter of a kind (see [KindConfig]) in one source; nil stores all rows
// of the kind. Obj must be the row type of the kind, or SetFilter returns an error.
//
// The loaded documents are evaluated again, soon after SetFilter returns if Run is running, or
// else when it begins. Files with documents of the kind are read again for this; other files are
// not. Rows that the filter drops are deleted from the table like rows whose documents are gone,
// so the reconciler's limit of deletes applies. Rows that are stored before and after are not
// written. If a filter depends on anything else that has changed, set it again.
//
// A file that is being written, or whose newest version is refused, keeps its rows in force until
// the file can be applied with the new filter. The source is incomplete until then, because rows
// may be missing.
//
// SetFilter is safe for concurrent use. The filter is called by the goroutine of Run.
func SetFilter[Obj any](s *Source, kindName string, filter func(Obj) bool) error {
	k, known := s.parser.kinds[kindName]
	if !known {
		return fmt.Errorf("source of documents: there is no kind %q; %s", kindName, instead(kindName, "kinds", s.parser.names))
	}
	if _, ok := k.(*kind[Obj]); !ok {
		return fmt.Errorf("kind %q: the filter is for rows of type %v, which is not the row type of the kind", kindName, reflect.TypeFor[Obj]())
	}
	s.filters.set(kindName, filter)
	s.config.Logger.Info("Filter of documents changed", "kind", kindName)
	s.approvals.wakeRun()
	return nil
}

// filterSet has the filters that replace those of the configuration, by the name of the kind. It
// is immutable.
type filterSet map[string]versionedFilter

// versionedFilter is a filter of a kind.
type versionedFilter struct {
	keep    any // a func(Obj) bool, which may be nil
	version uint64
}

// filters are the filters that were set. It is safe for concurrent use.
type filters struct {
	mu  sync.Mutex
	all filterSet
}

func (f *filters) set(kindName string, keep any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(f.all)
	if next == nil {
		next = filterSet{}
	}
	next[kindName] = versionedFilter{keep, f.all[kindName].version + 1}
	f.all = next
}

func (f *filters) current() filterSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// filterOf returns the filter that applies to a kind. The version of the configured filter is 0.
func (p *parser) filterOf(k Kind) versionedFilter {
	if set, ok := p.filters[k.Name()]; ok {
		return set
	}
	return versionedFilter{keep: k.filter()}
}

// filteredKind is a kind of which a file has documents, and the version of the filter that they
// were evaluated with.
type filteredKind struct {
	name    string
	version uint64
}

// filteredBy records the filter that the documents of a kind are evaluated with.
func (c *content) filteredBy(k Kind, version uint64) {
	for _, f := range c.filtered {
		if f.name == k.Name() {
			return
		}
	}
	c.filtered = append(c.filtered, filteredKind{k.Name(), version})
}

// current reports whether the documents were evaluated with these filters.
func (c *content) current(filters filterSet) bool {
	for _, f := range c.filtered {
		if filters[f.name].version != f.version {
			return false
		}
	}
	return true
}

// reuse replaces documents by equal ones of an older evaluation of the same data, so that their
// rows are not written again.
func (c *content) reuse(older *content) {
	if older == nil {
		return
	}
	byID := make(map[id]*document, len(older.docs))
	for _, d := range older.docs {
		byID[d.id] = d
	}
	for i, d := range c.docs {
		if same := byID[d.id]; same != nil && same.at == d.at {
			c.docs[i] = same
		}
	}
}

// stored returns the row to store for a decoded one. Kept is false if the filter drops it.
func (k *kind[Obj]) stored(row Obj, filter any) (stored Obj, kept bool, err error) {
	if stored, err = k.normalized(row); err != nil {
		return stored, false, err
	}
	if keep, _ := filter.(func(Obj) bool); keep != nil {
		if err := guard("filter", func() { kept = keep(stored) }); err != nil || !kept {
			return stored, false, err
		}
	}
	if k.config.Transform == nil {
		return stored, true, nil
	}
	var wrong error
	if err := guard("transformation", func() { stored, wrong = k.config.Transform(stored) }); err != nil {
		return stored, false, err
	}
	if wrong == nil && isNil(stored) {
		wrong = fmt.Errorf("the transformation of kind %q has returned nil", k.config.Name)
	}
	if wrong == nil {
		stored, wrong = k.normalized(stored)
	}
	return stored, wrong == nil, wrong
}

func (k *kind[Obj]) normalized(row Obj) (Obj, error) {
	if k.config.Normalized == nil {
		return row, nil
	}
	return k.config.Normalized(row)
}

// guard calls a function of the kind's configuration. A panic is an error of the document.
func guard(name string, fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the %s of its kind has panicked: %v", name, v)
		}
	}()
	fn()
	return nil
}

func isNil(row any) bool {
	v := reflect.ValueOf(row)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
