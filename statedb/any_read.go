package statedb

import "iter"

func (a anyTable[Obj]) Get(txn ReadTxn, key string) (AnyRow, bool, error) {
	q, err := a.primaryQuery(key)
	if err != nil {
		return AnyRow{}, false, err
	}
	obj, rev, ok := a.t.Get(txn, q)
	if !ok {
		return AnyRow{}, false, nil
	}
	return a.row(obj, rev), true, nil
}

func (a anyTable[Obj]) GetWatch(txn ReadTxn, key string) (AnyRow, <-chan struct{}, bool, error) {
	q, err := a.primaryQuery(key)
	if err != nil {
		return AnyRow{}, nil, false, err
	}
	watch := a.t.watchKey(txn, q)
	row, ok, err := a.Get(txn, key)
	return row, watch, ok, err
}

func (a anyTable[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow] {
	return a.rows(a.t.All(txn, opts...))
}

func (a anyTable[Obj]) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}) {
	rows, watch := a.t.AllWatch(txn, opts...)
	return a.rows(rows), watch
}

func (a anyTable[Obj]) List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return a.find(a.t.List, txn, index, key, opts)
}

func (a anyTable[Obj]) ListWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return a.follow(a.t.ListWatch, txn, index, key, opts)
}

func (a anyTable[Obj]) Prefix(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return a.find(a.t.Prefix, txn, index, key, opts)
}

func (a anyTable[Obj]) PrefixWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return a.follow(a.t.PrefixWatch, txn, index, key, opts)
}

func (a anyTable[Obj]) LowerBound(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return a.find(a.t.LowerBound, txn, index, key, opts)
}

func (a anyTable[Obj]) LowerBoundWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return a.follow(a.t.LowerBoundWatch, txn, index, key, opts)
}

func (a anyTable[Obj]) Range(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	first, end, err := a.bounds(index, from, to)
	if err != nil {
		return nil, err
	}
	return a.rows(a.t.Range(txn, first, end, opts...)), nil
}

func (a anyTable[Obj]) RangeWatch(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	first, end, err := a.bounds(index, from, to)
	if err != nil {
		return nil, nil, err
	}
	rows, watch := a.t.RangeWatch(txn, first, end, opts...)
	return a.rows(rows), watch, nil
}

// find runs one of the table's queries with a key as text, and follow does so with a watch.
func (a anyTable[Obj]) find(
	query func(ReadTxn, Query[Obj], ...ReadOption) iter.Seq2[Obj, Revision], txn ReadTxn, index, key string, opts []ReadOption,
) (iter.Seq[AnyRow], error) {
	q, err := a.query(index, key)
	if err != nil {
		return nil, err
	}
	return a.rows(query(txn, q, opts...)), nil
}

func (a anyTable[Obj]) follow(
	query func(ReadTxn, Query[Obj], ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}),
	txn ReadTxn, index, key string, opts []ReadOption,
) (iter.Seq[AnyRow], <-chan struct{}, error) {
	q, err := a.query(index, key)
	if err != nil {
		return nil, nil, err
	}
	rows, watch := query(txn, q, opts...)
	return a.rows(rows), watch, nil
}

func (a anyTable[Obj]) bounds(index, from, to string) (first, end Query[Obj], err error) {
	if first, err = a.query(index, from); err != nil {
		return first, end, err
	}
	end, err = a.query(index, to)
	return first, end, err
}

func (a anyTable[Obj]) primaryQuery(key string) (Query[Obj], error) {
	return a.query(a.t.schema.Primary.Name(), key)
}

func (a anyTable[Obj]) query(index, key string) (Query[Obj], error) {
	ix, ok := a.t.indexOf(index)
	if !ok {
		return Query[Obj]{}, a.t.unknownIndex(index)
	}
	q, err := a.t.indexes[ix].parse(key)
	if err != nil {
		return Query[Obj]{}, &TableError{Table: a.Name(), Err: err}
	}
	return q, nil
}

func (a anyTable[Obj]) rows(typed iter.Seq2[Obj, Revision]) iter.Seq[AnyRow] {
	return func(yield func(AnyRow) bool) {
		for obj, rev := range typed {
			if !yield(a.row(obj, rev)) {
				return
			}
		}
	}
}
