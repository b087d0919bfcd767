package statedb

import "testing"

// A transaction that changes nothing leaves the next one what it was lent.
func TestTheSpareLogOutlivesATransactionWithoutChanges(t *testing.T) {
	db := New()
	id := NewIndex("id", func(id int) int { return id })
	rows, err := NewTable(db, Schema[int]{Name: "rows", Primary: id})
	if err != nil {
		t.Fatal(err)
	}
	log := &rows.(*table[int]).spareLog
	for _, from := range []int{0, 0, 1_000} { // the second time all is there already
		if err := db.Update(t.Context(), func(txn *WriteTxn) error {
			for i := range 1_000 {
				if _, _, err := rows.Insert(txn, from+i); err != nil {
					return err
				}
			}
			return nil
		}, rows); err != nil {
			t.Fatal(err)
		}
		if spare := cap(log.records); spare < 1_000 || spare > maxSpareLog {
			t.Errorf("room for %d records is left", spare)
		}
	}
}
