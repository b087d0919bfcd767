package nft

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// content is the content of a table in a canonical form: it is the same for the requests that
// create a table and for the messages in which the kernel describes it.
type content struct {
	flags  uint32
	others int // number of objects other than chains and sets, which rows cannot create
	chains map[string]*chainContent
	sets   map[string]*setContent
}

type chainContent struct {
	base     bool
	hook     uint32
	priority int32
	policy   uint32
	kind     string
	rest     string // flags, device and user data, which rows cannot set
	rules    []string
}

type setContent struct {
	keyType, keyLen, flags uint32
	rest                   string   // attributes of maps, timeouts, limits and the like
	elements               []string // sorted before they are compared
}

func newContent() *content {
	return &content{chains: map[string]*chainContent{}, sets: map[string]*setContent{}}
}

// contentOf returns the content that requests create.
func contentOf(requests []rtnl.Request) *content {
	c := newContent()
	for i := range requests {
		c.add(requests[i].Type&0xff, requests[i].Attributes())
	}
	return c
}

// add adds the content of a message, which may be a request or an answer of the kernel.
func (c *content) add(message uint16, attributes []byte) {
	switch message {
	case unix.NFT_MSG_NEWCHAIN:
		c.addChain(attributes)
	case unix.NFT_MSG_NEWRULE:
		c.addRule(attributes)
	case unix.NFT_MSG_NEWSET:
		c.addSet(attributes)
	case unix.NFT_MSG_NEWSETELEM:
		c.addElements(attributes)
	}
}

// bigUint32 reads a number in the byte order of nf_tables. It returns 0 if b is too short.
func bigUint32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func (c *content) chain(name string) *chainContent {
	if c.chains[name] == nil {
		c.chains[name] = &chainContent{}
	}
	return c.chains[name]
}

func (c *content) addChain(attributes []byte) {
	const baseFlag = 1 // it only says that the chain has a hook
	name, is := "", chainContent{}
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.NFTA_CHAIN_NAME:
			name = rtnl.String(value)
		case unix.NFTA_CHAIN_POLICY:
			is.policy = bigUint32(value)
		case unix.NFTA_CHAIN_TYPE:
			is.kind = rtnl.String(value)
		case chainFlags:
			if flags := bigUint32(value) &^ baseFlag; flags != 0 {
				is.rest += fmt.Sprintf("flags %d ", flags)
			}
		case chainUserData:
			is.rest += fmt.Sprintf("data %x ", value)
		case unix.NFTA_CHAIN_HOOK:
			is.base = true
			for kind, value := range rtnl.Attributes(value) {
				switch kind {
				case unix.NFTA_HOOK_HOOKNUM:
					is.hook = bigUint32(value)
				case unix.NFTA_HOOK_PRIORITY:
					is.priority = int32(bigUint32(value))
				default:
					is.rest += fmt.Sprintf("device %x ", value)
				}
			}
		}
	}
	is.rules = c.chain(name).rules
	*c.chain(name) = is
}

func (c *content) addRule(attributes []byte) {
	chain, rule := "", ""
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.NFTA_RULE_CHAIN:
			chain = rtnl.String(value)
		case unix.NFTA_RULE_EXPRESSIONS:
			for _, e := range rtnl.Attributes(value) {
				rule += expressionText(e)
			}
		case unix.NFTA_RULE_USERDATA:
			rule += fmt.Sprintf("data %x;", value)
		}
	}
	in := c.chain(chain)
	in.rules = append(in.rules, rule)
}

func (c *content) set(name string) *setContent {
	if c.sets[name] == nil {
		c.sets[name] = &setContent{}
	}
	return c.sets[name]
}

func (c *content) addSet(attributes []byte) {
	name, is := "", setContent{}
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.NFTA_SET_NAME:
			name = rtnl.String(value)
		case unix.NFTA_SET_FLAGS:
			is.flags = bigUint32(value)
		case unix.NFTA_SET_KEY_TYPE:
			is.keyType = bigUint32(value)
		case unix.NFTA_SET_KEY_LEN:
			is.keyLen = bigUint32(value)
		case unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_OBJ_TYPE,
			unix.NFTA_SET_DESC, setExpression, setExpressions:
			if len(value) > 0 { // the description of a set without a maximal size
				is.rest += fmt.Sprintf("%d %x ", kind, value)
			}
		}
	}
	is.elements = c.set(name).elements
	*c.set(name) = is
}

func (c *content) addElements(attributes []byte) {
	var in *setContent
	for kind, value := range rtnl.Attributes(attributes) {
		switch {
		case kind == unix.NFTA_SET_ELEM_LIST_SET:
			in = c.set(rtnl.String(value))
		case kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS && in != nil:
			for _, element := range rtnl.Attributes(value) {
				in.elements = append(in.elements, elementText(element))
			}
		}
	}
}

// elementText returns a text that identifies an element: its key, whether the element is the
// end of a range, and attributes that elements of rows do not have.
func elementText(element []byte) string {
	var key, rest []byte
	flags := uint32(0)
	for kind, value := range rtnl.Attributes(element) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			for _, data := range rtnl.Attributes(value) {
				key = data
			}
		case unix.NFTA_SET_ELEM_FLAGS:
			flags = bigUint32(value)
		case unix.NFTA_SET_ELEM_DATA, unix.NFTA_SET_ELEM_TIMEOUT, unix.NFTA_SET_ELEM_OBJREF, keyEnd,
			unix.NFTA_SET_ELEM_EXPR, elementExpressions:
			rest = append(append(rest, byte(kind)), value...)
		}
	}
	text := make([]byte, 0, 24)
	text = append(append(text, byte(len(key))), key...)
	return string(append(append(text, byte(flags)), rest...))
}

// digest returns a text that is equal for equal content.
func (c *content) digest() string {
	h := sha256.New()
	write(h, fmt.Sprint("table ", c.flags, c.others))
	for _, name := range slices.Sorted(maps.Keys(c.chains)) {
		is := c.chains[name]
		write(h, name)
		write(h, is.text())
		write(h, fmt.Sprint(len(is.rules)))
		for _, rule := range is.rules {
			write(h, rule)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.sets)) {
		is := c.sets[name]
		slices.Sort(is.elements)
		write(h, name)
		write(h, is.text())
		write(h, fmt.Sprint(len(is.elements)))
		for _, element := range is.elements {
			write(h, element)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// write writes a text so that one text cannot be confused with two.
func write(h hash.Hash, text string) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(text)))
	h.Write(size[:])
	h.Write([]byte(text))
}

// text describes a chain without its rules.
func (c *chainContent) text() string {
	if !c.base {
		return "no hook " + c.rest
	}
	hook := fmt.Sprint(c.hook)
	for name, number := range hooks {
		if number == c.hook {
			hook = name
		}
	}
	policy := accept
	if c.policy == dropPacket {
		policy = drop
	}
	return fmt.Sprintf("type %s hook %s priority %s policy %s %s", c.kind, hook, PriorityOf(c.priority), policy, c.rest)
}

// text describes a set without its elements.
func (s *setContent) text() string {
	kind := fmt.Sprintf("type %d of %d bytes", s.keyType, s.keyLen)
	for name, known := range setTypes {
		if known == (setType{s.keyType, s.keyLen}) {
			kind = "type " + name
		}
	}
	if s.flags&unix.NFT_SET_INTERVAL != 0 {
		kind += " with ranges"
	}
	if more := s.flags &^ unix.NFT_SET_INTERVAL; more != 0 {
		kind += fmt.Sprintf(" flags %d", more)
	}
	return kind + " " + s.rest
}
