package nft

import (
	"context"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// event is a decoded notification.
type event struct {
	kind       eventKind
	table      Seen // only the key for tableTouched
	own        bool // we made the change
	generation uint32
}

type eventKind uint8

const (
	tableMade eventKind = iota // or its flags were changed
	tableGone
	tableTouched // something in it has changed
	committed    // the end of the changes of one transaction
)

// keeper keeps the table of a mirror. It belongs to one goroutine, except for decode,
// which is called by one goroutine at a time.
type keeper struct {
	target *Target
	table  *statedb.RWTable[Seen]

	// pending are the changes of the transaction that is being received.
	pending map[Key]*change
	// listed is the generation in which all tables were read. read has the later generations in
	// which single tables were read.
	listed uint32
	read   map[Key]uint32

	last lastTouched // of decode
}

// change is a transaction's change to a table. The zero value is a change to something in
// the table.
type change struct {
	gone    bool
	made    *Seen
	trusted bool // we made it, so its content matches its mark
}

// lastTouched identifies the last table and transaction of a notification, in order to skip
// the many notifications of one transaction about one table.
type lastTouched struct {
	key         Key
	transaction [2]byte // the last bytes of its generation
}

// decode reads a notification.
func (k *keeper) decode(m syscall.NetlinkMessage) (e event, ok bool) {
	message, family, attributes, ok := rtnl.TablesMessage(m)
	if !ok {
		return e, false
	}
	e.own = m.Header.Pid == k.target.port
	switch message {
	case unix.NFT_MSG_NEWGEN:
		e.kind = committed
		e.generation, ok = decodeGeneration(m)
		return e, ok
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE:
		if message == unix.NFT_MSG_DELTABLE {
			e.kind = tableGone
		}
		h, ok := decodeTable(m)
		e.table = h.Seen
		k.last = lastTouched{}
		return e, ok
	}
	if e.own {
		return e, false
	}
	e.kind = tableTouched
	return k.touched(e, family, attributes, [2]byte{m.Data[2], m.Data[3]})
}

// touched completes an event, unless it repeats the previous one.
func (k *keeper) touched(e event, family byte, attributes []byte, transaction [2]byte) (event, bool) {
	const tableAttribute = 1 // in each kind of message
	for kind, value := range rtnl.Attributes(attributes) {
		if kind != tableAttribute {
			continue
		}
		known := &k.last
		if known.transaction == transaction && known.key.Family.number() == family && known.key.Name == rtnl.String(value) {
			return e, false
		}
		e.table.Key = Key{familyOf(family), rtnl.String(value)}
		k.last = lastTouched{e.table.Key, transaction}
		return e, true
	}
	return e, false
}

// list returns all tables, and reads the content of ours.
func (k *keeper) list(ctx context.Context, _ func() error) ([]Seen, error) {
	r := &reader{conn: k.target.conn, ctx: ctx}
	generation, err := r.generation()
	if err != nil {
		return nil, err
	}
	tables, err := r.tables()
	if err != nil {
		return nil, err
	}
	rows := make([]Seen, 0, len(tables))
	for _, h := range tables {
		if h.ours() {
			c, err := r.content(h)
			if errors.Is(err, syscall.ENOENT) {
				continue // it is gone since
			}
			if err != nil {
				return nil, err
			}
			h.Content = c.digest()
		}
		rows = append(rows, h.Seen)
	}
	k.pending, k.read, k.listed = map[Key]*change{}, map[Key]uint32{}, generation
	return rows, ctx.Err()
}

// apply applies an event. The mirror's table changes at the end of a transaction. apply
// returns the reason why the table may be wrong, or an empty string.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	if e.kind == committed {
		return k.settle(txn, e.generation)
	}
	c := k.pending[e.table.Key]
	if c == nil {
		c = &change{}
		k.pending[e.table.Key] = c
	}
	switch e.kind {
	case tableMade:
		c.made, c.trusted = &e.table, e.own
	case tableGone:
		*c = change{gone: true}
	}
	return "", nil
}

// settle writes the changes of a transaction, except for tables that were read after it.
func (k *keeper) settle(txn *statedb.WriteTxn, generation uint32) (doubt string, err error) {
	pending := k.pending
	k.pending = map[Key]*change{}
	if !later(generation, k.listed) {
		return "", nil
	}
	r := &reader{conn: k.target.conn, ctx: context.Background()}
	for key, c := range pending {
		if read, known := k.read[key]; known && !later(generation, read) {
			continue
		}
		reason, err := k.settleTable(txn, r, key, *c)
		if err != nil {
			return "", err
		}
		if reason != "" {
			doubt = reason
		}
	}
	return doubt, nil
}

// later reports whether a generation comes after another. Numbers wrap around to 0.
func later(generation, than uint32) bool { return int32(generation-than) > 0 }

func (k *keeper) settleTable(txn *statedb.WriteTxn, r *reader, key Key, c change) (doubt string, err error) {
	is, _, found := k.table.Get(txn, SeenByKey.Query(key))
	switch {
	case c.made != nil && (c.trusted || !c.made.ours()):
		is, found = *c.made, true
		is.Content = is.Mark
		delete(k.read, key)
		return "", k.put(txn, is, found)
	case c.made == nil && c.gone:
		delete(k.read, key)
		return "", k.put(txn, Seen{Key: key}, false)
	case c.made == nil && (!found || !is.ours()):
		return "", nil
	}
	generation, err := r.generation()
	if err == nil {
		is, found, err = r.seen(key)
	}
	if err != nil { // the next listing reports the error if it persists
		return "table " + key.String() + " has changed and cannot be read", nil //nolint:nilerr // the table is in doubt
	}
	k.read[key] = generation
	is.Key = key
	return "", k.put(txn, is, found)
}

// put adds a row to the table or removes it.
func (k *keeper) put(txn *statedb.WriteTxn, s Seen, found bool) (err error) {
	if found {
		_, _, err = k.table.Insert(txn, s)
		return err
	}
	if _, _, there := k.table.Get(txn, SeenByKey.Query(s.Key)); there {
		_, _, err = k.table.Delete(txn, s)
	}
	return err
}
