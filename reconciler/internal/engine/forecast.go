package engine

import (
	"time"

	"github.com/statehive/statehive/internal/store"
)

// notable says that the not-done table may have to be told of an update.
func (out *outcome) notable() bool {
	return out.kind == opUpdate && (out.err != nil || out.result.Again > 0 || out.item != nil && out.item.noted)
}

// writeForecast adds to the transaction that writes statuses what the rows of the
// not-done table will be, so that both are seen together, and returns it. When a
// row then takes another way the ledger finds out and writes it again.
func (l *loop) writeForecast(txn *store.WriteTxn, outcomes []*outcome, now time.Time) (noted []NotDone) {
	for _, out := range outcomes {
		if !out.notable() || out.outdated || out.stuck || isStatusError(out.err) {
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
func (l *loop) forecast(out *outcome, now time.Time) NotDone {
	it := &item{entry: out.entry, state: waiting, ran: reasonChange, err: out.err}
	if out.item != nil {
		it.ran, it.attempts = out.item.ran, out.item.attempts
	}
	if it.attempts++; out.err == nil {
		it.attempts = 0
	}
	if due, later := l.nextTry(out, it.attempts, now); later {
		it.due = due
	}
	return l.ledger.notDone(it)
}
