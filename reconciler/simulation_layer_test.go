package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// layer is a reconciler of a layered simulation, and its target.
type layer struct {
	*world
	s        *layered
	number   int
	nested   bool // its rows depend on each other
	observed reconciler.Observation[row]
	events   chan string // ids that the feed has still to look at
	held     atomic.Int32
	dropped  bool // its table is
	blind    bool // the table of what is observed is

	mu      sync.Mutex
	seen    *statedb.RWTable[sighting]
	touched map[string]time.Time // when the last operation on a row ended, by id

	differs map[string]difference // rows that are done although they are seen to differ
}

// difference is a row that is done, and seen to be something else.
type difference struct {
	text  string
	since time.Time
}

// makeTable makes the table of a layer, which is empty.
func (l *layer) makeTable() {
	schema := rowSchema()
	schema.Name = l.name
	l.table = must(statedb.NewTable(l.db, schema))
}

// makeSeen makes the table of what is observed, and lists in it what is there.
func (l *layer) makeSeen() {
	seen := must(statedb.NewTable(l.db, statedb.Schema[sighting]{Name: "seen-" + l.name, Primary: sightingByID}))
	l.check(l.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		source, err := seen.RegisterSource(txn, "feed")
		if err != nil {
			return err
		}
		for id, is := range l.target.state() {
			if _, _, err := seen.Insert(txn, sighting{id, is}); err != nil {
				return err
			}
		}
		return source.Initialized(txn)
	}, seen))
	l.sights = &watchful{world: l.world, seen: seen}
	l.observed = reconciler.Observes(statedb.ReadOnly(seen), func(_ statedb.ReadTxn, s sighting) iter.Seq[statedb.Query[row]] {
		return byIDs(s.ID)
	}, l.sights.compare)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = seen
}

// someID returns one of a few ids of a layer: each begins with that of a row below.
func (l *layer) someID() string {
	id, deep := fmt.Sprint("k", l.s.random.IntN(3)), l.number
	if l.nested {
		deep = l.s.random.IntN(3)
	}
	for range deep {
		id += fmt.Sprint("/", l.s.random.IntN(2))
	}
	return id
}

// parentOf returns the id of the row that one is on.
func parentOf(id string) string {
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		return id[:i]
	}
	return ""
}

// below returns the layer whose rows those of the layer depend on, or nil.
func (l *layer) below() *layer {
	switch {
	case l.nested:
		return l
	case l.number == 0:
		return nil
	}
	return l.s.layers[l.number-1]
}

// act is how the target behaves: nothing can be made on what is not there, and what
// is on something goes with it.
func (l *layer) act(_ context.Context, c call) (reconciler.Result, error) {
	take(time.Duration(1+l.s.chance.n(20)) * time.Millisecond)
	if c.op != "update" && c.op != "delete" {
		return reconciler.Result{}, nil
	}
	defer func() {
		l.touch(c.id)
		l.events <- c.id
	}()
	if below := l.below(); c.op == "update" && below != nil && parentOf(c.id) != "" {
		if _, there := below.target.state()[parentOf(c.id)]; !there {
			return reconciler.Result{}, fmt.Errorf("%s is not there", parentOf(c.id))
		}
	}
	if !l.s.calm.Load() {
		switch l.s.chance.n(12) {
		case 0:
			return reconciler.Result{}, errBoom
		case 1:
			return reconciler.Result{Again: time.Duration(1+l.s.chance.n(500)) * time.Millisecond}, nil
		case 2:
			l.target.half(c)
			return reconciler.Result{}, errBoom
		case 3:
			panic(errBoom)
		}
	}
	if c.op == "delete" {
		l.bury(c.id)
	}
	return reconciler.Result{}, nil
}

// touch records that an operation on a row has ended: what is seen of the row may be older for some time.
func (l *layer) touch(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched[id] = time.Now()
}

// lastTouched returns when the last operation on a row ended.
func (l *layer) lastTouched(id string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.touched[id]
}

// remove removes something behind the reconciler's back.
func (l *layer) remove(id string) {
	l.target.vanish(id)
	l.bury(id)
	l.events <- id
}

// bury removes what is on something that is gone.
func (l *layer) bury(id string) {
	above := l.s.layers[l.number+1:]
	if l.nested {
		above = l.s.layers
	}
	for _, above := range above {
		for other := range above.target.state() {
			if strings.HasPrefix(other, id+"/") {
				above.target.vanish(other)
				above.events <- other
			}
		}
	}
}

// feed writes down what is there of what has changed some time ago.
func (l *layer) feed(slowest int) {
	for id := range l.events {
		take(time.Duration(1+l.s.chance.n(slowest)) * time.Millisecond)
		l.mu.Lock()
		seen := l.seen
		l.mu.Unlock()
		err := l.db.Update(context.Background(), func(txn *statedb.WriteTxn) (err error) {
			if is, there := l.target.state()[id]; there {
				_, _, err = seen.Insert(txn, sighting{id, is})
			} else {
				_, _, err = seen.Delete(txn, sighting{ID: id})
			}
			return err
		}, seen)
		if err != nil && !errors.Is(err, statedb.ErrDropped) {
			l.t.Error(err)
		}
	}
}

// statusPatience is how long a status may take to follow what is observed.
const statusPatience = 200 * time.Millisecond

// lookForLies checks that no row stays done while it is seen to differ, for longer
// than that may be old news and a status may take to be written. A row that is updated to be sure, and lost again
// before that is seen, is old news once more.
func (l *layer) lookForLies() {
	if l.ended == nil || l.dropped || l.blind || l.held.Load() > 0 {
		clear(l.differs)
		return
	}
	txn, now := l.db.ReadTxn(), time.Now()
	for r, rev := range l.table.All(txn) {
		changes := l.sights.compare(txn, r)
		if len(changes) == 0 || r.Status.Kind() != reconciler.Done {
			delete(l.differs, r.ID)
			continue
		}
		text := fmt.Sprintf("%v, revision %d", changes, rev)
		d, known := l.differs[r.ID]
		if !known || d.text != text || d.since.Before(l.lastTouched(r.ID)) {
			l.differs[r.ID] = difference{text, now}
		} else if now.Sub(d.since) > l.config.Drift.Settle+statusPatience {
			l.t.Errorf("%s %s is done since %v although %s", l.name, r.ID, now.Sub(d.since), text)
			delete(l.differs, r.ID)
		}
	}
}
