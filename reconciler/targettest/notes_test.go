package targettest_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

type row struct{ name, value string }

// wall is where notes hang, with a book of those that are ours.
type wall struct {
	mu    sync.Mutex
	notes map[string]string
	book  map[string]bool
}

func (w *wall) get(name string) (value string, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	value, there = w.notes[name]
	return value, there
}

func (w *wall) put(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[name] = value
}

func (w *wall) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notes, name)
}

func (w *wall) all() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.notes)
}

// ours lists what is in the book and on the wall.
func (w *wall) ours() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.book {
		if _, there := w.notes[name]; there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *wall) record(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book[name] = true
}

func (w *wall) strike(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.book, name)
}

func (w *wall) recorded(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book[name]
}

// notes is a target. fault is how it breaks the contract.
type notes struct {
	*wall
	fault string

	mem  sync.Mutex
	made map[string]bool   // what it remembers to have made
	took map[string]bool   // what it takes for done
	kept [][]row           // slices of batches
	late bool              // an Init has failed
	done map[string]string // what it remembers to be in sync
	lock chan struct{}     // of Observe
}

func newNotes(w *wall, fault string) *notes {
	n := &notes{wall: w, fault: fault, made: map[string]bool{}, took: map[string]bool{}, done: map[string]string{}, lock: make(chan struct{}, 1)}
	if fault == "knows its things in memory only" {
		n.wall = &wall{notes: w.notes, book: map[string]bool{}}
	}
	return n
}

func (n *notes) remembers(name, value string) bool {
	n.mem.Lock()
	defer n.mem.Unlock()
	is, known := n.done[name]
	return known && is == value
}

func (n *notes) remember(name, value string) {
	n.mem.Lock()
	defer n.mem.Unlock()
	n.made[name], n.done[name] = true, value
}

func (n *notes) forget(name string) (made bool) {
	n.mem.Lock()
	defer n.mem.Unlock()
	delete(n.done, name)
	delete(n.took, name)
	return n.made[name]
}

func (n *notes) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil && n.fault != "init ignores the context" {
		n.late = true
		return err
	}
	switch n.fault {
	case "init fails for good once it was interrupted":
		if n.late {
			return errors.New("too late")
		}
	case "init forgets":
		clear(n.notes)
	case "init removes what it does not know":
		for name := range n.all() {
			if !n.recorded(name) {
				n.remove(name)
			}
		}
	}
	return nil
}

var errInvalid = errors.New("a note has a value")

func (n *notes) Update(ctx context.Context, _ statedb.ReadTxn, obj row) (reconciler.Result, error) {
	if err := n.look(ctx, "update ignores the context"); err != nil {
		return reconciler.Result{}, err
	}
	if obj.value == "" && n.fault != "accepts what cannot be" {
		if n.fault == "refuses for now only" {
			return reconciler.Result{}, errInvalid
		}
		return reconciler.Result{}, reconciler.Terminal(errInvalid)
	}
	is, there := n.get(obj.name)
	changed := !there || is != obj.value
	if n.believes(obj, there) {
		return reconciler.Result{}, nil
	}
	if changed && (!there || n.fault != "update keeps what is there") {
		if err := n.write(ctx, obj, there); err != nil {
			return reconciler.Result{}, err
		}
	}
	n.remember(obj.name, obj.value)
	switch n.fault {
	case "update panics":
		panic("ouch")
	case "update ends its goroutine":
		runtime.Goexit()
	case "asks to be run again in the past":
		return reconciler.Result{Changed: changed, Again: -1}, nil
	case "changed is always true":
		changed = true
	case "changed is always false", "update keeps what is there":
		changed = changed && !there && n.fault == "update keeps what is there"
	}
	return reconciler.Result{Changed: changed}, nil
}

func (n *notes) takes(name string) bool {
	n.mem.Lock()
	defer n.mem.Unlock()
	return n.took[name]
}

// believes says whether the target does not look at the wall, for what it
// remembers.
func (n *notes) believes(obj row, there bool) bool {
	switch n.fault {
	case "believes its memory", "takes a plan for done":
		return n.remembers(obj.name, obj.value)
	case "a batch takes what was interrupted for done":
		return n.takes(obj.name)
	case "sees only whether it is there":
		return there && n.remembers(obj.name, obj.value)
	}
	return false
}

// write records first, so that a crash loses nothing.
func (n *notes) write(ctx context.Context, obj row, there bool) error {
	late := n.fault == "records what it has made afterwards"
	if n.fault == "takes a plan for done" {
		n.remember(obj.name, obj.value)
	}
	if !late {
		n.record(obj.name)
	}
	if err := n.look(ctx, "update ignores the context"); err != nil {
		return err
	}
	if _, still := n.get(obj.name); there && !still {
		switch n.fault {
		case "panics when it is gone meanwhile":
			panic("gone")
		case "gives up when it is gone meanwhile":
			return reconciler.Terminal(errors.New("gone"))
		}
	}
	switch n.fault {
	case "update writes nothing":
		return nil
	case "writes back what it has read":
		read := n.all()
		<-time.After(time.Millisecond)
		read[obj.name] = obj.value
		n.mu.Lock()
		defer n.mu.Unlock()
		n.notes = read
		return nil
	}
	n.put(obj.name, obj.value)
	err := n.look(ctx, "")
	if late {
		n.record(obj.name) // also when it ends here for the context's sake
	}
	return err
}

func (n *notes) look(ctx context.Context, ignoring string) error {
	err := ctx.Err()
	if err == nil || n.fault == ignoring {
		return nil
	}
	switch n.fault {
	case "hangs when its context has ended":
		<-time.After(time.Hour)
	case "the end of a context is terminal":
		return errors.Join(errors.New("update"), reconciler.Terminal(err))
	}
	return err
}

func (n *notes) Delete(ctx context.Context, _ statedb.ReadTxn, obj row) error {
	if err := n.look(ctx, "delete ignores the context"); err != nil {
		return err
	}
	is, there := n.get(obj.name)
	made := n.forget(obj.name)
	switch {
	case !there && !made && n.fault == "delete of what is absent fails":
		return errors.New("absent")
	case !there && made && n.fault == "delete of what it has deleted fails":
		return errors.New("absent")
	case n.fault == "delete does nothing":
		return nil
	case is != obj.value && n.fault == "delete needs the values of the row":
		return nil
	case is != obj.value && n.fault == "observe yields no values, which delete needs":
		return nil
	case !n.recorded(obj.name):
		return nil
	}
	n.remove(obj.name)
	if err := n.look(ctx, ""); err != nil {
		return err
	}
	n.strike(obj.name)
	return nil
}

func (n *notes) Prune(ctx context.Context, _ statedb.ReadTxn, desired iter.Seq2[row, statedb.Revision]) (int, error) {
	if err := n.look(ctx, "prune ignores the context"); err != nil {
		return 0, err
	}
	pruned := 0
	wanted := map[string]bool{}
	for obj := range desired {
		wanted[obj.name] = n.fault != "prune removes all"
	}
	names := n.ours()
	if n.fault == "prune removes what others made" {
		names = slices.Sorted(maps.Keys(n.all()))
	}
	for _, name := range names {
		if wanted[name] || n.fault == "prune does nothing" || n.fault == "prune knows its own things only" && !n.remembersMaking(name) {
			continue
		}
		if n.fault == "prune strikes first" {
			n.strike(name)
		}
		if err := n.look(ctx, "prune ignores the context"); err != nil {
			return pruned, err
		}
		n.remove(name)
		n.strike(name)
		pruned++
	}
	return pruned, nil
}

func (n *notes) Observe(ctx context.Context) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		select {
		case n.lock <- struct{}{}:
		case <-time.After(time.Hour): // for ever, but a bubble would not have that
		}
		for i, found := range n.found() {
			if err := ctx.Err(); err != nil {
				if n.fault != "a listing cut short is no error" && (i == 0 || n.fault != "a listing interrupted is no error") {
					yield(row{}, err)
				}
				break
			}
			if n.fault == "observe skips one" && i == 1 {
				continue
			}
			if !yield(found, nil) {
				switch n.fault {
				case "observe keeps its lock when left early":
					return
				case "observe goes on when left early":
					continue
				}
				break
			}
		}
		<-n.lock
	}
}

// found returns what Observe is to yield.
func (n *notes) found() (rows []row) {
	names := n.ours()
	switch n.fault {
	case "observe yields things twice":
		names = slices.Concat(names, names)
	case "observe yields what is gone":
		names = slices.Sorted(maps.Keys(n.made))
	case "observe yields what others made":
		names = slices.Sorted(maps.Keys(n.all()))
	}
	if len(n.kept) > 0 {
		kept := slices.Concat(n.kept...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(kept, func(r row) bool { return r.name == name })
		})
	}
	for _, name := range names {
		value, _ := n.get(name)
		if n.fault == "observe yields no values, which delete needs" {
			value = ""
		}
		rows = append(rows, row{name, value})
	}
	return rows
}

func (n *notes) Diff(_ context.Context, _ statedb.ReadTxn, obj row) ([]reconciler.Change, error) {
	if obj.value == "" && !strings.HasSuffix(n.fault, "accepts what cannot be") {
		return nil, reconciler.Terminal(errInvalid)
	}
	is, there := n.get(obj.name)
	change := reconciler.Change{Field: "value", Is: is, Want: obj.value}
	switch n.fault {
	case "diff makes what is due":
		n.record(obj.name)
		n.put(obj.name, obj.value)
	case "diff is blind":
		return nil, nil
	case "diff fails":
		return nil, errors.New("no idea")
	case "diff sees ghosts":
		return []reconciler.Change{change}, nil
	case "diff names no field":
		change.Field = ""
	}
	if there && is == obj.value {
		return nil, nil
	}
	return []reconciler.Change{change}, nil
}
