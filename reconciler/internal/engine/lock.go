package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// lockPatience is how long a table may be locked by others before health says so.
const lockPatience = time.Second

// lockRequest waits for the lock of a table in a goroutine of its own, so that the deciding
// one never does. It hands over an open transaction.
type lockRequest struct {
	table    store.TableMeta
	granted  chan grant // nil while nothing is asked for
	gone     chan struct{}
	cancel   context.CancelFunc
	since    time.Time
	reported bool // health knows
}

type grant struct {
	txn *store.WriteTxn
	err error
}

func (q *lockRequest) waiting() bool { return q.granted != nil }

func (q *lockRequest) ask(db *store.DB, now time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	granted, gone := make(chan grant), make(chan struct{})
	q.granted, q.gone, q.cancel, q.since = granted, gone, cancel, now
	go func() {
		defer close(gone)
		txn, err := db.WriteTxn(ctx, q.table)
		select {
		case granted <- grant{txn, err}:
		case <-ctx.Done():
			if txn != nil {
				txn.Abort()
			}
		}
	}()
}

// end ends the request, which was granted or is not wanted any more.
func (q *lockRequest) end() {
	if q.waiting() {
		q.cancel()
		<-q.gone
		q.granted = nil
	}
}

// overdueAt returns when health is to be told that the table is locked, or zero.
func (q *lockRequest) overdueAt() time.Time {
	if !q.waiting() || q.reported {
		return time.Time{}
	}
	return q.since.Add(lockPatience)
}

// errLocked is what a table that is locked by others keeps from being done.
func (q *lockRequest) errLocked() error {
	holder := q.table.Untyped().Holder()
	if holder == "" {
		holder = "held by others in turn"
	}
	return &store.TableError{Table: q.table.Name(), Err: fmt.Errorf("%w: %s", errTableLocked, holder)}
}

var errTableLocked = errors.New("its lock")

// watchLocks tells health of tables that others have locked for long.
func (l *loop) watchLocks(now time.Time) {
	l.watchLock(&l.commit.lock, statusTrouble, now)
	l.watchLock(&l.ledger.lock, ledgerTrouble, now)
}

func (l *loop) watchLock(q *lockRequest, about string, now time.Time) {
	due := q.overdueAt()
	if due.IsZero() || now.Before(due) {
		return
	}
	q.reported = true
	err := q.errLocked()
	l.health.concern(about, err)
	l.r.p.Logger.Warn(about+": a table is locked", "reconciler", l.r.p.Name, "error", err)
}

// unlocked is called when a table could be written.
func (l *loop) unlocked(q *lockRequest, about string) {
	if q.reported {
		q.reported = false
		l.health.concern(about, nil)
	}
}
