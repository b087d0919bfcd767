package nft

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// markOf returns the comment that marks a table of ours. It has digests of the key, because tables are copied with
// their comments, and of the content that we wrote.
func markOf(key Key, content string) string { return markPrefix(key) + content }

func markPrefix(key Key) string {
	sum := sha256.Sum256([]byte(key.String()))
	return "statehive " + hex.EncodeToString(sum[:8]) + " "
}

// Seen is a table of the kernel, no matter who made it.
type Seen struct {
	Key    Key    `json:"key"`
	Handle uint64 `json:"handle"` // unique, and never used again for another table
	// Mark is the digest in the table's mark, of the content that we wrote; empty if the table
	// is not ours.
	Mark string `json:"mark,omitempty"`
	// Content is the digest of the existing content of a table of ours.
	Content string `json:"content,omitempty"`
}

func (s Seen) ours() bool { return s.Mark != "" }

// header is the kernel's description of a table without its content.
type header struct {
	Seen
	flags uint32
	uses  int // number of chains, sets and other objects
}

// decodeTable reads the kernel's description of a table.
func decodeTable(m syscall.NetlinkMessage) (h header, ok bool) {
	message, family, attributes, ok := rtnl.TablesMessage(m)
	if !ok || message != unix.NFT_MSG_NEWTABLE && message != unix.NFT_MSG_DELTABLE {
		return h, false
	}
	h.Key.Family = familyOf(family)
	var userData []byte
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.NFTA_TABLE_NAME:
			h.Key.Name = rtnl.String(value)
		case unix.NFTA_TABLE_FLAGS:
			h.flags = bigUint32(value)
		case unix.NFTA_TABLE_USE:
			h.uses = int(bigUint32(value))
		case tableHandle:
			if len(value) >= 8 {
				h.Handle = binary.BigEndian.Uint64(value)
			}
		case tableUserData:
			userData = value
		}
	}
	h.Mark = markIn(h.Key, userData)
	return h, h.Key.Name != ""
}

// markIn returns the digest of the content in the mark of a table, if it has one.
func markIn(key Key, data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		kind, value := userdata.Type(data[0]), data[2:2+int(data[1])]
		if digest, marked := strings.CutPrefix(rtnl.String(value), markPrefix(key)); kind == tableComment && marked && digest != "" {
			return digest
		}
		data = data[2+len(value):]
	}
	return ""
}

// reader reads tables. It caches data that is read once for all tables, so it must only be used
// for one operation.
type reader struct {
	conn   *rtnl.Conn
	ctx    context.Context          //nolint:containedctx // of one operation
	chains map[Key][]chainAttribute // of all tables; nil if not yet read
}

// chainAttribute is the kernel's description of a chain.
type chainAttribute []byte

// generation returns the number of the last transaction.
func (r *reader) generation() (number uint32, err error) {
	request := rtnl.TablesRequest(unix.NFT_MSG_GETGEN, 0, unix.NFPROTO_UNSPEC)
	err = r.conn.Get(r.ctx, request, func(m syscall.NetlinkMessage) { number, _ = decodeGeneration(m) })
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	return number, nil
}

func decodeGeneration(m syscall.NetlinkMessage) (number uint32, ok bool) {
	message, _, attributes, ok := rtnl.TablesMessage(m)
	for kind, value := range rtnl.Attributes(attributes) {
		if kind == unix.NFTA_GEN_ID {
			number = bigUint32(value)
		}
	}
	return number, ok && message == unix.NFT_MSG_NEWGEN
}

// tables lists all tables, without their content.
func (r *reader) tables() ([]header, error) {
	tables, err := rtnl.Dump(r.ctx, r.conn, rtnl.TablesRequest(unix.NFT_MSG_GETTABLE, 0, unix.NFPROTO_UNSPEC), decodeTable)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return tables, nil
}

// table returns the existing table with a key, without its content.
func (r *reader) table(key Key) (h header, found bool, err error) {
	request := rtnl.TablesRequest(unix.NFT_MSG_GETTABLE, 0, key.Family.number())
	request.AddString(unix.NFTA_TABLE_NAME, key.Name)
	err = r.conn.Get(r.ctx, request, func(m syscall.NetlinkMessage) { h, found = decodeTable(m) })
	if errors.Is(err, syscall.ENOENT) {
		return header{}, false, nil
	}
	if err != nil {
		return header{}, false, fmt.Errorf("look up table %s: %w", key, err)
	}
	return h, found, nil
}

// seen is like table, but includes the digest of the content if the table is ours.
func (r *reader) seen(key Key) (s Seen, found bool, err error) {
	h, found, err := r.table(key)
	if err != nil || !found || !h.ours() {
		return h.Seen, found, err
	}
	c, err := r.content(h)
	if errors.Is(err, syscall.ENOENT) { // it has been removed meanwhile
		return Seen{}, false, nil
	}
	if err == nil {
		h.Content = c.digest()
	}
	return h.Seen, true, err
}

// content reads the content of a table.
func (r *reader) content(h header) (*content, error) {
	c := newContent()
	c.flags = h.flags
	if err := r.readChains(); err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	for _, attributes := range r.chains[h.Key] {
		c.addChain(attributes)
	}
	err := r.part(c, h.Key, unix.NFT_MSG_GETRULE, unix.NFTA_RULE_TABLE, "")
	if err == nil {
		err = r.part(c, h.Key, unix.NFT_MSG_GETSET, unix.NFTA_SET_TABLE, "")
	}
	for name := range c.sets {
		if err == nil {
			err = r.part(c, h.Key, unix.NFT_MSG_GETSETELEM, unix.NFTA_SET_ELEM_LIST_TABLE, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", h.Key, err)
	}
	c.others = h.uses - len(c.chains) - len(c.sets)
	return c, nil
}

// part adds rules, sets or the elements of a set to the content.
func (r *reader) part(c *content, key Key, message, tableAttribute uint16, set string) error {
	request := rtnl.TablesRequest(message, 0, key.Family.number())
	request.AddString(tableAttribute, key.Name)
	if set != "" {
		request.AddString(unix.NFTA_SET_ELEM_LIST_SET, set)
	}
	_, err := rtnl.DumpPart(r.ctx, r.conn, request, func(m syscall.NetlinkMessage) (struct{}, bool) {
		if message, _, attributes, ok := rtnl.TablesMessage(m); ok {
			c.add(message, attributes)
		}
		return struct{}{}, false
	})
	return err
}

// readChains lists the chains of all tables: the kernel cannot list the chains of one table.
func (r *reader) readChains() error {
	if r.chains != nil {
		return nil
	}
	type chain struct {
		key        Key
		attributes chainAttribute
	}
	decode := func(m syscall.NetlinkMessage) (c chain, ok bool) {
		_, family, attributes, ok := rtnl.TablesMessage(m)
		c.key.Family = familyOf(family)
		for kind, value := range rtnl.Attributes(attributes) {
			if kind == unix.NFTA_CHAIN_TABLE {
				c.key.Name = rtnl.String(value)
			}
		}
		c.attributes = slices.Clone(attributes)
		return c, ok
	}
	chains, err := rtnl.Dump(r.ctx, r.conn, rtnl.TablesRequest(unix.NFT_MSG_GETCHAIN, 0, unix.NFPROTO_UNSPEC), decode)
	if err != nil {
		return err
	}
	r.chains = map[Key][]chainAttribute{}
	for _, c := range chains {
		r.chains[c.key] = append(r.chains[c.key], c.attributes)
	}
	return nil
}
