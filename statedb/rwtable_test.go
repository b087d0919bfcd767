package statedb_test

import (
	"reflect"
	"testing"

	"github.com/statehive/statehive/statedb"
)

func TestNoConversionGivesTheRightToWrite(t *testing.T) {
	to := reflect.TypeFor[*statedb.RWTable[item]]()
	for _, from := range []reflect.Type{reflect.TypeFor[*statedb.Table[item]](), reflect.TypeFor[*statedb.RWTable[network]]()} {
		if from.ConvertibleTo(to) || from.Elem().ConvertibleTo(to.Elem()) {
			t.Errorf("%s can be converted into %s", from, to)
		}
	}
	if reflect.TypeFor[*statedb.Table[network]]().ConvertibleTo(reflect.TypeFor[*statedb.Table[item]]()) {
		t.Error("a table can be converted into one of other rows")
	}
}

func TestReadOnlyIsTheSameTable(t *testing.T) {
	db := newDB()
	items := newTable(t, db, itemSchema("items"))
	reader := statedb.ReadOnly(items)
	check(t, "insert", db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := items.Insert(txn, item{ID: "1"})
		return err
	}, reader)) // which names the same table
	if reader.Untyped() != items.Untyped() || reader.Len(db.ReadTxn()) != 1 {
		t.Errorf("%d rows", reader.Len(db.ReadTxn()))
	}
	if none := statedb.ReadOnly[item](nil); none != nil {
		t.Error("not nil for nil")
	}
}
