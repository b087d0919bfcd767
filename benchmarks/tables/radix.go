package tables

import (
	"fmt"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// radix is a tree for each index and nothing around them.
type radix struct {
	trees []*iradix.Tree[*Row]
}

func newRadix(secondaries, _ int) (Store, error) {
	r := &radix{}
	for range 1 + secondaries {
		r.trees = append(r.trees, iradix.New[*Row]())
	}
	return r, nil
}

func (r *radix) key(index int, row *Row) []byte {
	own := [...]string{row.ID, row.Group, row.Zone, row.Owner}[index]
	key := make([]byte, 0, len(own)+1+len(row.ID))
	key = append(key, own...)
	if index > 0 {
		key = append(append(key, 0), row.ID...)
	}
	return key
}

func (r *radix) write(rows []Row, change func(old *Row, next *Row)) error {
	txns := make([]*iradix.Txn[*Row], len(r.trees))
	for i, tree := range r.trees {
		txns[i] = tree.Txn()
		txns[i].TrackMutate(true) // as go-memdb does, for its watches
	}
	for _, next := range rows {
		if change != nil {
			old, ok := txns[0].Get([]byte(next.ID))
			if !ok {
				return fmt.Errorf("no row %s", next.ID)
			}
			change(old, &next)
		}
		old, existed := txns[0].Insert(r.key(0, &next), &next)
		for i := range txns[1:] {
			ix := i + 1
			key := r.key(ix, &next)
			if existed {
				if was := r.key(ix, old); string(was) != string(key) {
					txns[ix].Delete(was)
				}
			}
			txns[ix].Insert(key, &next)
		}
	}
	for i, txn := range txns {
		r.trees[i] = txn.Commit()
	}
	return nil
}

func (r *radix) Write(rows []Row) error { return r.write(rows, nil) }

func (r *radix) Modify(rows []Row) error {
	return r.write(rows, func(old, next *Row) { *next = *old; next.Version++ })
}

// Swap is Modify: there is nobody else.
func (r *radix) Swap(rows []Row) error { return r.Modify(rows) }

func (r *radix) Get(id string) bool {
	_, ok := r.trees[0].Get([]byte(id))
	return ok
}

func (r *radix) List(group string) int {
	return r.count(1, append([]byte(group), 0), func(row *Row) bool { return row.Group == group })
}

func (r *radix) All() int { return r.count(0, nil, func(row *Row) bool { return row.ID != "" }) }

func (r *radix) count(index int, prefix []byte, matches func(*Row) bool) (n int) {
	it := r.trees[index].Root().Iterator()
	it.SeekPrefix(prefix)
	for _, row, ok := it.Next(); ok; _, row, ok = it.Next() {
		if matches(row) {
			n++
		}
	}
	return n
}

func (r *radix) Empty() error { return r.write(nil, nil) }
