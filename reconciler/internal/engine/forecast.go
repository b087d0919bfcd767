package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// notable says that the not-done table may have to be told of an update.
func notable(out *pool.Task) bool {
	return out.Kind == pool.Update && (out.Err != nil || out.Result.Again > 0 || out.Item != nil && out.Item.Noted)
}

// writeForecast adds to the transaction that writes statuses what the rows of the
// not-done table will be, so that both are seen together, and returns it. When a
// row then takes another way the ledger finds out and writes it again.
func (l *loop) writeForecast(txn *store.WriteTxn, outcomes []*pool.Task, now time.Time) (noted []NotDone) {
	for _, out := range outcomes {
		if !notable(out) || out.Outdated || out.Stuck || isStatusError(out.Err) {
			continue
		}
		row := l.forecast(out, now)
		if !l.ledger.isNews(row, now) {
			continue
		}
		if err := l.ledger.put(txn, row); err != nil {
			l.health.concern(ledgerTrouble, err)
			l.r.p.Logger.Error("the not-done table could not be written", "reconciler", l.r.p.Name, "key", row.Key, "error", err)
			continue
		}
		noted = append(noted, row)
	}
	return noted
}

// forecast is the row of the not-done table for an update that has ended.
func (l *loop) forecast(out *pool.Task, now time.Time) NotDone {
	it := &workqueue.Item{Entry: out.Entry, Ran: workqueue.Change, Failures: workqueue.Failures{Err: out.Err}}
	if out.Item != nil {
		it.Ran, it.Attempts = out.Item.Ran, out.Item.Attempts
	}
	if it.Attempts++; out.Err == nil {
		it.Attempts = 0
	}
	it.Preview(l.r.backoff().Next(out, it.Attempts, now))
	return l.ledger.notDone(it)
}
