package nft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// task is the work on one table in one transaction.
type task struct {
	at       int // the place of its row
	key      Key
	requests []rtnl.Request
}

func (t task) size() (size int) {
	for i := range t.requests {
		size += t.requests[i].Size()
	}
	return size
}

// tries is the number of attempts on a table that others change at the same time.
const tries = 3

// UpdateBatch implements reconciler.BatchTarget. Small tables share a transaction.
func (t *Target) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, rows []Table) []reconciler.BatchResult {
	results := make([]reconciler.BatchResult, len(rows))
	t.perform(ctx, rows, (*looker).replacement, func(i int, changed bool, err error) {
		results[i].Result.Changed, results[i].Err = changed, err
	})
	return results
}

// DeleteBatch implements reconciler.BatchTarget.
func (t *Target) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, rows []Table) []error {
	outcomes := make([]error, len(rows))
	t.perform(ctx, rows, (*looker).removal, func(i int, _ bool, err error) { outcomes[i] = err })
	return outcomes
}

// replacement returns the requests that make the existing table match a row; none if it
// already does.
func (l *looker) replacement(row Table) ([]rtnl.Request, error) {
	row, err := wanted(row)
	if err != nil {
		return nil, err
	}
	is, found, err := l.look(row.Key())
	if err == nil {
		err = is.refused(row, found)
	}
	if err != nil || len(is.steps(row, found)) == 0 {
		return nil, err
	}
	requests, err := row.creation()
	if err == nil && found {
		requests = append([]rtnl.Request{is.deletion()}, requests...)
	}
	return requests, err
}

// removal returns the request that removes a table of ours, or none if the table does not exist or is
// an orphan that others have changed.
func (l *looker) removal(row Table) ([]rtnl.Request, error) {
	is, found, err := l.look(row.Key())
	if err != nil || !found || !is.ours() {
		return nil, err
	}
	if row.observed && is.Content != is.Mark {
		l.log.Warn("A table that is not declared is left as it is, although it has the agent's mark: its content is not what was written last. If nobody needs it, remove it with nft delete table",
			"table", is.Key.String())
		return nil, nil
	}
	return []rtnl.Request{is.deletion()}, nil
}

// perform applies or removes rows, and passes the outcome of each to done with the row's place.
// Tables that changed between lookup and transaction are looked up again, without the mirror.
func (t *Target) perform(
	ctx context.Context, rows []Table,
	requests func(*looker, Table) ([]rtnl.Request, error), done func(i int, changed bool, err error),
) {
	due := make([]int, len(rows))
	for i := range rows {
		due[i] = i
	}
	l := t.looker(ctx)
	for try := 1; len(due) > 0; try++ {
		var tasks []task
		for _, i := range due {
			needed, err := requests(l, rows[i])
			switch err = errors.Join(err, ctx.Err()); {
			case err != nil:
				done(i, false, err)
			case len(needed) == 0:
				done(i, false, nil)
			default:
				tasks = append(tasks, task{i, rows[i].Key(), needed})
			}
		}
		due = nil
		for n, err := range t.transact(ctx, tasks) {
			if stale(err) && try < tries {
				due = append(due, tasks[n].at)
				continue
			}
			done(tasks[n].at, err == nil, err)
		}
		l = &looker{log: t.log, reader: reader{conn: t.conn, ctx: ctx}}
	}
}

// stale reports whether a transaction failed because a table existed unexpectedly, or was not
// the same table as before.
func stale(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused) && refused.table && (errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOENT))
}

// Limits on the requests and bytes of a transaction that small tables share: others have to
// wait for the kernel during a transaction.
const (
	sharedRequests = 2000
	sharedBytes    = 128 << 10
)

// transact writes tables, each in one transaction, and returns the outcome of each.
func (t *Target) transact(ctx context.Context, tasks []task) []error {
	outcomes := make([]error, len(tasks))
	for first := 0; first < len(tasks); {
		requests, bytes, last := 0, 0, first
		for ; last < len(tasks); last++ {
			requests += len(tasks[last].requests)
			bytes += tasks[last].size()
			if last > first && (requests > sharedRequests || bytes > sharedBytes) {
				break
			}
		}
		t.share(ctx, tasks[first:last], outcomes[first:last])
		first = last
	}
	return outcomes
}

// share writes several tables in one transaction. If some of them fail, it writes the others.
func (t *Target) share(ctx context.Context, tasks []task, outcomes []error) {
	left := make([]int, len(tasks))
	for i := range tasks {
		left[i] = i
	}
	for len(left) > 0 {
		var all []rtnl.Request
		for _, i := range left {
			all = append(all, tasks[i].requests...)
		}
		err := t.conn.Transact(ctx, all)
		var failure *rtnl.TransactionError
		switch {
		case err == nil:
			return
		case !errors.As(err, &failure), len(failure.Refused) == 0 && len(left) == 1:
			for _, i := range left {
				outcomes[i] = fmt.Errorf("write table %s: %w", tasks[i].key, err)
			}
			return
		case len(failure.Refused) == 0: // any of them may be the one that the kernel refuses
			for _, i := range left {
				t.share(ctx, tasks[i:i+1], outcomes[i:i+1])
			}
			return
		}
		at := 0
		left = slices.DeleteFunc(left, func(i int) bool {
			first := at
			at += len(tasks[i].requests)
			outcomes[i] = tasks[i].refusal(failure.Refused, first)
			return outcomes[i] != nil
		})
	}
}

// refusedError is the error for a table of which the kernel refuses something.
type refusedError struct {
	key   Key
	what  string // refused object, such as "rules[3] of chain input"
	table bool   // whether the table itself was refused
	err   error
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf("write table %s: %s: %v", e.key, e.what, e.err)
}

// Unwrap returns the kernel's error.
func (e *refusedError) Unwrap() error { return e.err }

// refusal returns the first error of a task in a transaction, given the place of the task's
// first request.
func (t task) refusal(refused map[int]error, first int) error {
	for i := range t.requests {
		if err := refused[first+i]; err != nil {
			what, table := t.describe(i)
			return &refusedError{t.key, what, table, err}
		}
	}
	return nil
}

// describe returns the object of a request as text, and whether that is the table itself.
func (t task) describe(at int) (what string, table bool) {
	name := func(i int, attribute uint16) string {
		for kind, value := range rtnl.Attributes(t.requests[i].Attributes()) {
			if kind == attribute {
				return rtnl.String(value)
			}
		}
		return ""
	}
	switch t.requests[at].Type & 0xff {
	case unix.NFT_MSG_NEWSET:
		return "set " + name(at, unix.NFTA_SET_NAME), false
	case unix.NFT_MSG_NEWSETELEM:
		return "elements of set " + name(at, unix.NFTA_SET_ELEM_LIST_SET), false
	case unix.NFT_MSG_NEWCHAIN:
		return "chain " + name(at, unix.NFTA_CHAIN_NAME), false
	case unix.NFT_MSG_NEWRULE:
		chain, number := name(at, unix.NFTA_RULE_CHAIN), 0
		for i := range at {
			if t.requests[i].Type == t.requests[at].Type && name(i, unix.NFTA_RULE_CHAIN) == chain {
				number++
			}
		}
		return fmt.Sprintf("rules[%d] of chain %s", number, chain), false
	}
	return "the table", true
}
