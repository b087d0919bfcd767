package statedb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
)

type (
	defaulters = []func(statedb.ReadTxn, item) (item, error)
	validators = []func(statedb.ReadTxn, statedb.Proposal[item]) error
)

var errNegative = errors.New("number is negative")

func refuseNegative(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
	if p.Object.Number < 0 {
		return errNegative
	}
	return nil
}

func admissionFixture(t *testing.T, fill defaulters, validate validators, rows ...item) *fixture {
	t.Helper()
	schema := itemSchema("items")
	schema.Defaulters, schema.Validators = fill, validate
	return fixtureOf(t, schema, rows)
}

func TestARejectedWriteChangesNothing(t *testing.T) {
	bad := item{ID: "a", Number: -1}
	for name, write := range map[string]func(*fixture, *statedb.WriteTxn) error{
		"Insert": func(f *fixture, txn *statedb.WriteTxn) error { _, _, err := f.items.Insert(txn, bad); return err },
		"CompareAndSwap": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.CompareAndSwap(txn, 1, bad)
			return err
		},
		"Modify": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.Modify(txn, byID.Query("a"), func(item) item { return bad })
			return err
		},
		"InsertIfAbsent": func(f *fixture, txn *statedb.WriteTxn) error {
			_, inserted, err := f.items.InsertIfAbsent(txn, item{ID: "b", Number: -1})
			if inserted {
				f.t.Error("inserted")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := admissionFixture(t, nil, validators{refuseNegative}, item{ID: "a", Tags: "x"})
			before := f.db.ReadTxn()
			_, watch := f.items.AllWatch(before)
			f.update(func(txn *statedb.WriteTxn) error {
				err := write(f, txn)
				wantError(t, err, statedb.ErrRejected, errNegative)
				var rowError *statedb.RowError
				if !errors.As(err, &rowError) || rowError.Table != "items" || !strings.Contains(err.Error(), "row was rejected: number is negative") {
					t.Errorf("error %v", err)
				}
				if f.items.Revision(txn) != 1 || f.items.Len(txn) != 1 {
					t.Error("the transaction has changed")
				}
				return nil
			})
			if closed(watch) || f.db.ReadTxn() != before {
				t.Error("the commit had something to publish")
			}
		})
	}
}

func TestAPanickingValidatorChangesNothing(t *testing.T) {
	f := admissionFixture(t, nil, validators{func(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
		if p.Object.Number < 0 {
			panic("validator")
		}
		return nil
	}}, item{ID: "a", Tags: "x"})
	txn := f.write()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _, err := f.items.Insert(txn, item{ID: "a", Number: -1, Tags: "y"})
		t.Errorf("returned %v", err)
	}()
	_, _, err := f.items.Insert(txn, item{ID: "b", Tags: "y"})
	check(t, "a write after it", err)
	_, err = txn.Commit()
	check(t, "commit", err)
	wantIDs(t, "tag x", ids(f.items.List(f.db.ReadTxn(), byTag.Query("x"))), "a")
	wantIDs(t, "tag y", ids(f.items.List(f.db.ReadTxn(), byTag.Query("y"))), "b")
	if revision := f.items.Revision(f.db.ReadTxn()); revision != 2 {
		t.Errorf("revision %d, expected 2", revision)
	}
}

func TestDefaultersCompleteARowInOrder(t *testing.T) {
	f := admissionFixture(t, defaulters{
		func(txn statedb.ReadTxn, i item) (item, error) {
			i.ID = strings.ToLower(i.ID)
			return i, nil
		},
		func(_ statedb.ReadTxn, i item) (item, error) {
			if i.Group == "" {
				i.Group = "group of " + i.ID
			}
			return i, nil
		},
	}, validators{func(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
		if p.Object.Group == "" || p.Object.Status != 0 {
			return fmt.Errorf("validated before it was complete: %+v", p.Object)
		}
		return nil
	}})
	f.insert(item{ID: "A", Status: 3})
	want := item{ID: "a", Group: "group of a"}
	if row, _ := f.get("a"); row != want {
		t.Errorf("the row is %+v, expected %+v", row, want)
	}
	f.insert(item{ID: "A"}, want) // complete, they say the same
	f.update(func(txn *statedb.WriteTxn) error {
		existing, inserted, err := f.items.InsertIfAbsent(txn, item{ID: "A", Number: 7})
		if existing != want || inserted {
			t.Errorf("inserted %t, existing %+v", inserted, existing)
		}
		return err
	})
	if revision := f.items.Revision(f.db.ReadTxn()); revision != 1 {
		t.Errorf("revision %d, expected 1", revision)
	}
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, err := f.items.Modify(txn, byID.Query("a"), func(i item) item { i.ID = "B"; return i })
		return err
	})
	wantError(t, err, statedb.ErrKeyChanged)
}

func TestADefaulterMayRefuse(t *testing.T) {
	f := admissionFixture(t, defaulters{func(_ statedb.ReadTxn, i item) (item, error) { return i, errNegative }}, nil)
	wantError(t, f.put(item{ID: "a"}), statedb.ErrRejected, errNegative)
}

func TestValidatorsSeeWhatIsReplaced(t *testing.T) {
	var seen []string
	f := admissionFixture(t, nil, validators{func(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
		seen = append(seen, fmt.Sprintf("%d->%d %t", p.Old.Number, p.Object.Number, p.Replaces))
		return nil
	}})
	f.insert(item{ID: "a", Number: 1})
	f.insert(item{ID: "a", Number: 1}) // nothing would change
	f.insert(item{ID: "a", Number: 2})
	_, revision := f.get("a")
	f.amend("a", revision, 5)
	f.remove("a")
	if want := []string{"0->1 false", "1->2 true"}; !slices.Equal(seen, want) {
		t.Errorf("validators saw %q, expected %q", seen, want)
	}
}

// A row of the table "parts" names a row of "wholes" in its group.
func TestReferencesBetweenTables(t *testing.T) {
	db := newDB()
	wholes := newTable(t, db, itemSchema("wholes"))
	schema := itemSchema("parts")
	schema.Validators = validators{func(txn statedb.ReadTxn, p statedb.Proposal[item]) error {
		if _, _, ok := wholes.Get(txn, byID.Query(p.Object.Group)); !ok {
			return fmt.Errorf("there is no %q", p.Object.Group)
		}
		return nil
	}}
	parts := newTable(t, db, schema)
	insert := func(txn *statedb.WriteTxn) error {
		_, _, err := parts.Insert(txn, item{ID: "part", Group: "whole"})
		return err
	}
	wantError(t, db.Update(t.Context(), insert, parts), statedb.ErrRejected)
	check(t, "both in one transaction", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		wantError(t, insert(txn), statedb.ErrRejected) // not yet
		if _, _, err := wholes.Insert(txn, item{ID: "whole"}); err != nil {
			return err
		}
		return insert(txn)
	}, parts, wholes))

	// Not locked, the other table is read as it was when the transaction began.
	txn, err := db.WriteTxn(t.Context(), parts)
	check(t, "begin", err)
	check(t, "delete meanwhile", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := wholes.Delete(txn, item{ID: "whole"})
		return err
	}, wholes))
	_, _, err = parts.Insert(txn, item{ID: "another", Group: "whole"})
	check(t, "advisory", err)
	_, err = txn.Commit()
	check(t, "commit", err)
}

func TestAdmissionCannotWriteBehindTheWritersBack(t *testing.T) {
	var meddle func(txn statedb.ReadTxn)
	f := admissionFixture(t, nil, validators{func(txn statedb.ReadTxn, _ statedb.Proposal[item]) error {
		if _, writable := txn.(*statedb.WriteTxn); writable {
			t.Error("validators are given the means to write")
		}
		if m := meddle; m != nil {
			meddle = nil
			m(txn)
		}
		return nil
	}})
	err := f.try(func(txn *statedb.WriteTxn) error {
		meddle = func(statedb.ReadTxn) {
			if _, _, err := f.items.Insert(txn, item{ID: "a", Number: 1}); err != nil {
				t.Error(err)
			}
		}
		_, _, err := f.items.Insert(txn, item{ID: "a", Number: 2})
		return err
	})
	wantError(t, err, statedb.ErrConflict)
	err = f.try(func(txn *statedb.WriteTxn) error {
		meddle = func(statedb.ReadTxn) { txn.Abort() }
		_, _, err := f.items.Insert(txn, item{ID: "a"})
		return err
	})
	wantError(t, err, statedb.ErrTxnClosed)
}

func TestPointerRowsAndDefaulters(t *testing.T) {
	calls := 0
	db := newDB()
	table := newTable(t, db, statedb.Schema[*item]{
		Name: "pointers", Primary: statedb.NewIndex("id", func(i *item) string { return i.ID }),
		Defaulters: []func(statedb.ReadTxn, *item) (*item, error){func(_ statedb.ReadTxn, i *item) (*item, error) {
			calls++
			if i.Number < 0 {
				return nil, nil
			}
			return i, nil
		}},
	})
	insert := func(row *item) error {
		return db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row)
			return err
		}, table)
	}
	row := &item{ID: "a"}
	check(t, "insert", insert(row))
	wantError(t, insert(row), statedb.ErrSameObject)
	if calls != 1 {
		t.Errorf("%d calls: the stored object was completed", calls)
	}
	wantError(t, insert(&item{ID: "b", Number: -1}), statedb.ErrNilRow)
}
