package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// Attributes that package unix lacks.
const (
	tableHandle        = 4 // NFTA_TABLE_HANDLE
	tableUserData      = 6 // NFTA_TABLE_USERDATA
	chainFlags         = 10
	chainUserData      = 12
	setExpression      = 17 // NFTA_SET_EXPR
	setExpressions     = 18 // NFTA_SET_EXPRESSIONS
	keyEnd             = 10 // NFTA_SET_ELEM_KEY_END
	elementExpressions = 11 // NFTA_SET_ELEM_EXPRESSIONS
	dropPacket         = 0  // NF_DROP
	acceptPacket       = 1  // NF_ACCEPT
)

// tableComment is the type that nft(8) gives a table's comment in its user data.
const tableComment = userdata.Type(0)

// hooks are the kernel's numbers of the hooks that base chains can have.
var hooks = map[string]uint32{
	"prerouting": unix.NF_INET_PRE_ROUTING, "input": unix.NF_INET_LOCAL_IN, "forward": unix.NF_INET_FORWARD,
	"output": unix.NF_INET_LOCAL_OUT, "postrouting": unix.NF_INET_POST_ROUTING,
}

// creation returns the requests that create the table with everything in it. The row must have
// its digest.
func (t Table) creation() ([]rtnl.Request, error) {
	content, err := t.requests()
	if err != nil {
		return nil, err
	}
	r := t.request(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	r.AddString(unix.NFTA_TABLE_NAME, t.Name)
	r.Add(tableUserData, userdata.AppendString(nil, tableComment, markOf(t.Key(), t.digest)))
	return append([]rtnl.Request{r}, content...), nil
}

// deletion returns the request that removes the table that was looked up, and no other.
func (s Seen) deletion() rtnl.Request {
	r := rtnl.TablesRequest(unix.NFT_MSG_DELTABLE, 0, s.Key.Family.number())
	r.Add(tableHandle, binary.BigEndian.AppendUint64(nil, s.Handle))
	return r
}

// requests returns the requests that create the content of the table.
func (t Table) requests() ([]rtnl.Request, error) {
	var all []rtnl.Request
	for i, set := range t.Sets {
		requests, err := t.setRequests(set, uint32(i+1))
		if err != nil {
			return nil, fmt.Errorf("sets[%d].%w", i, err)
		}
		all = append(all, requests...)
	}
	translating := t.translating()
	for _, chain := range t.Chains {
		all = append(all, t.chainRequest(chain, typeOf(chain, translating)))
	}
	for i, chain := range t.Chains {
		for j, rule := range chain.Rules {
			r, err := t.ruleRequest(chain.Name, rule)
			if err != nil {
				return nil, fmt.Errorf("chains[%d].rules[%d]: %w", i, j, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

func (t Table) request(message, flags uint16) rtnl.Request {
	return rtnl.TablesRequest(message, flags, t.Family.number())
}

func addNumber(r *rtnl.Request, kind uint16, number uint32) {
	r.Add(kind, binary.BigEndian.AppendUint32(nil, number))
}

// setRequests returns the requests that create a set. id identifies it in the transaction.
func (t Table) setRequests(set Set, id uint32) ([]rtnl.Request, error) {
	spans, ranges, err := set.spans()
	if err != nil {
		return nil, err
	}
	kind, known := setTypes[set.Type]
	if !known {
		return nil, fmt.Errorf("type: %q is unknown", set.Type)
	}
	r := t.request(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	r.AddString(unix.NFTA_SET_TABLE, t.Name)
	r.AddString(unix.NFTA_SET_NAME, set.Name)
	addNumber(&r, unix.NFTA_SET_ID, id)
	addNumber(&r, unix.NFTA_SET_KEY_TYPE, kind.number)
	addNumber(&r, unix.NFTA_SET_KEY_LEN, kind.bytes)
	if ranges {
		addNumber(&r, unix.NFTA_SET_FLAGS, unix.NFT_SET_INTERVAL)
	}
	const networkOrder = 2 // the value that nft(8) writes and expects
	r.Add(unix.NFTA_SET_USERDATA, userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, networkOrder))
	requests := []rtnl.Request{r}
	for len(spans) > 0 {
		n := min(len(spans), spansAtATime)
		requests = append(requests, t.elementsRequest(set.Name, spans[:n], ranges))
		spans = spans[n:]
	}
	return requests, nil
}

// spansAtATime is the number of keys in one message: the attribute that contains them must be
// shorter than 64 KiB, and a range of IPv6 addresses takes 64 bytes.
const spansAtATime = 1000

func (t Table) elementsRequest(set string, spans []span, ranges bool) rtnl.Request {
	r := t.request(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	r.AddString(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
	r.AddString(unix.NFTA_SET_ELEM_LIST_SET, set)
	r.Nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
		for _, s := range spans {
			addElement(&r, s.first, 0)
			if end, more := following(s.last); ranges && more {
				addElement(&r, end, unix.NFT_SET_ELEM_INTERVAL_END)
			}
		}
	})
	return r
}

func addElement(r *rtnl.Request, key []byte, flags uint32) {
	r.Nest(unix.NFTA_LIST_ELEM, func() {
		if flags != 0 {
			addNumber(r, unix.NFTA_SET_ELEM_FLAGS, flags)
		}
		r.Nest(unix.NFTA_SET_ELEM_KEY, func() { r.Add(unix.NFTA_DATA_VALUE, key) })
	})
}

func (t Table) chainRequest(chain Chain, kind string) rtnl.Request {
	r := t.request(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	r.AddString(unix.NFTA_CHAIN_TABLE, t.Name)
	r.AddString(unix.NFTA_CHAIN_NAME, chain.Name)
	if chain.Hook == "" {
		return r
	}
	r.Nest(unix.NFTA_CHAIN_HOOK, func() {
		addNumber(&r, unix.NFTA_HOOK_HOOKNUM, hooks[chain.Hook])
		addNumber(&r, unix.NFTA_HOOK_PRIORITY, uint32(chain.Priority.value))
	})
	policy := uint32(acceptPacket)
	if chain.Policy == drop {
		policy = dropPacket
	}
	addNumber(&r, unix.NFTA_CHAIN_POLICY, policy)
	r.AddString(unix.NFTA_CHAIN_TYPE, kind)
	return r
}

func (t Table) ruleRequest(chain string, rule Rule) (rtnl.Request, error) {
	r := t.request(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
	r.AddString(unix.NFTA_RULE_TABLE, t.Name)
	r.AddString(unix.NFTA_RULE_CHAIN, chain)
	var err error
	r.Nest(unix.NFTA_RULE_EXPRESSIONS, func() {
		for _, e := range t.expressions(rule) {
			var data []byte
			if data, err = expr.Marshal(t.Family.number(), e); err != nil {
				return
			}
			r.Add(unix.NFTA_LIST_ELEM, data)
		}
	})
	return r, err
}
