package agent

import (
	"context"
	"log/slog"
	"sync"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// documentsMemory records which documents were in force, across boots and network namespaces, which
// the files that they declared outlive. If any were, an agent that finds no documents when it starts
// asks before it removes what they declared.
type documentsMemory struct {
	records *ownership.Records[file.InForce]
}

// inForce is the key of the only record.
const inForce = "in-force"

func newMemory(store *ownership.Store) (file.Memory, error) {
	records, err := ownership.NewLastingRecords[file.InForce](store, "documents")
	if err == nil && records.Damaged(inForce) {
		err = records.Put(inForce, file.InForce{Files: 1}) // there were some
	}
	return documentsMemory{records}, err
}

func (m documentsMemory) InForce() file.InForce {
	now, _ := m.records.Get(inForce)
	return now
}

func (m documentsMemory) SetInForce(now file.InForce) error {
	if now.Files > 0 {
		return m.records.Put(inForce, now)
	}
	return m.records.Remove(inForce)
}

// heldDeletes records that a reconciler holds deletes, across boots: the files that it keeps outlive them. If the reconciler has not
// been started with the state directory before, what carries our mark was made by an agent with another one; and if the directory is a copy, such as
// from a backup, what was decided since it was made is not known. The deletes of what an earlier run made are held then.
type heldDeletes struct {
	records *ownership.Records[reconciler.HeldDeletes]
	name    string
	isNew   bool
}

func newHeldDeletes(store *ownership.Store, started *startedRecords, l cell.Lifecycle, logger *slog.Logger) (reconcilercell.Memory, error) {
	records, err := ownership.NewLastingRecords[reconciler.HeldDeletes](store, "held-deletes")
	if err != nil {
		return nil, err
	}
	copied := store.IsCopy()
	if copied {
		logger.Warn("The state directory is a copy, such as one from a backup: what was decided since it was made is not known, so deletes are held until they are approved")
	}
	if !store.ReadOnly() {
		mark := func() {
			if err := started.mark(store); err != nil {
				logger.Warn("The state directory was not marked", "error", err)
			}
		}
		mark()
		l.Append(cell.Hook{Name: "mark the state directory", OnStop: func(context.Context) error { mark(); return nil }})
	}
	return func(name string) reconciler.Memory {
		_, known := started.Get(name)
		h := heldDeletes{records, name, copied || !known && !started.Damaged(name)}
		if h.isNew && h.SetDeletesHeld(&reconciler.HeldDeletes{}) == nil {
			_ = started.Put(name, true) // without it, the next start is as careful
		}
		return h
	}, nil
}

// startedRecords tell which reconcilers have been started with the state directory.
type startedRecords struct {
	*ownership.Records[bool]

	mu       sync.Mutex
	outdated []string // keys that are to be removed before the state directory, which is a copy, is marked
}

func newStartedRecords(store *ownership.Store) (*startedRecords, error) {
	records, err := ownership.NewLastingRecords[bool](store, "started")
	if err != nil {
		return nil, err
	}
	s := &startedRecords{Records: records}
	if store.IsCopy() {
		for name := range records.All() {
			s.outdated = append(s.outdated, name)
		}
	}
	return s, nil
}

// mark marks the state directory. If that was a copy, no reconciler counts as started before: if this process is killed before all of them are, the
// next one is as careful.
func (s *startedRecords) mark(store *ownership.Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.RemoveAll(s.outdated) {
		return err
	}
	s.outdated = nil
	return store.Mark()
}

func (h heldDeletes) DeletesHeld() *reconciler.HeldDeletes {
	held, ok := h.records.Get(h.name)
	if !ok && !h.isNew && !h.records.Damaged(h.name) {
		return nil
	}
	return &held // of a damaged record it is only known that deletes were held
}

func (h heldDeletes) SetDeletesHeld(held *reconciler.HeldDeletes) error {
	if held == nil {
		return h.records.Remove(h.name)
	}
	return h.records.Put(h.name, *held)
}
