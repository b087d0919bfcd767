package hivetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/statedb"
)

// watchLimit is for how long `agent watch` waits for changes.
const watchLimit = 10 * time.Second

// tables are the commands of scripts for tables.
type tables struct {
	db   *statedb.DB
	seen map[string]map[string]statedb.AnyRow // rows by key that `agent watch` has shown, by table
}

func tableCommands(db *statedb.DB) []Command {
	t := &tables{db: db, seen: make(map[string]map[string]statedb.AnyRow)}
	return []Command{
		{Name: "insert", Usage: "TABLE FILE", Run: t.insert},
		{Name: "delete", Usage: "TABLE KEY", Run: t.remove},
		{Name: "show", Usage: "TABLE [COLUMN...]", Run: t.show},
		{Name: "compare", Usage: "TABLE FILE", Run: t.compare},
		{Name: "watch", Usage: "TABLE CHANGES", Run: t.watch},
	}
}

// table returns the table that a call names, if it has as many arguments.
func (t *tables) table(call *Call, atLeast, atMost int) (statedb.ReadTxn, statedb.AnyTable, error) {
	txn := t.db.ReadTxn()
	if len(call.Args) < atLeast || len(call.Args) > atMost {
		return txn, nil, errUsage
	}
	table, err := t.db.Table(txn, call.Args[0])
	return txn, table, err
}

// insert writes the rows of a file, all or none: JSON objects one after another, or arrays of them.
func (t *tables) insert(ctx context.Context, call *Call) error {
	_, table, err := t.table(call, 2, 2)
	if err != nil {
		return err
	}
	text, err := call.ReadFile(call.Args[1])
	if err != nil {
		return err
	}
	rows, err := decodeRows(text)
	if err != nil {
		return fmt.Errorf("%s: %w", call.Args[1], err)
	}
	return t.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table.Meta())
}

func decodeRows(text []byte) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		switch err := d.Decode(&value); {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, err
		case value[0] != '[':
			rows = append(rows, value)
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
}

// remove deletes a row.
func (t *tables) remove(ctx context.Context, call *Call) error {
	_, table, err := t.table(call, 2, 2)
	if err != nil {
		return err
	}
	return t.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		_, deleted, err := table.Delete(txn, call.Args[1])
		if err == nil && !deleted {
			err = fmt.Errorf("table %q has no row %q", table.Name(), call.Args[1])
		}
		return err
	}, table.Meta())
}

// show writes the rows in the order of the primary index, with all columns or with those that are named.
func (t *tables) show(_ context.Context, call *Call) error {
	txn, table, err := t.table(call, 1, 1<<10)
	if err != nil {
		return err
	}
	return write(call.Stdout, txn, table, call.Args[1:])
}

// write writes the rows with the columns that are named, or with all.
func write(to io.Writer, txn statedb.ReadTxn, table statedb.AnyTable, columns []string) error {
	all := table.Columns()
	if len(columns) == 0 {
		columns = all
	}
	places := make([]int, len(columns))
	for i, name := range columns {
		places[i] = slices.IndexFunc(all, func(c string) bool { return strings.EqualFold(c, name) })
		if places[i] < 0 {
			return fmt.Errorf("table %q has no column %q; there are: %s", table.Name(), name, strings.Join(all, ", "))
		}
	}
	var rows [][]string
	for row := range table.All(txn) {
		cells := make([]string, len(places))
		for i, p := range places {
			cells[i] = row.Cells[p]
		}
		rows = append(rows, cells)
	}
	return cli.WriteTable(to, columns, rows)
}

// compare compares the rows with a file as show writes it. The first line of the file names the columns. How many spaces
// are between columns makes no difference.
func (t *tables) compare(_ context.Context, call *Call) error {
	txn, table, err := t.table(call, 2, 2)
	if err != nil {
		return err
	}
	text, err := call.ReadFile(call.Args[1])
	if err != nil {
		return err
	}
	want := lines(text)
	if len(want) == 0 {
		return fmt.Errorf("%s is empty: expected a line with the names of columns", call.Args[1])
	}
	var shown bytes.Buffer
	if err := write(&shown, txn, table, strings.Fields(want[0])); err != nil {
		return err
	}
	if got := lines(shown.Bytes()); !slices.Equal(got, want) {
		join := func(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
		return errors.New(string(diff.Diff(call.Args[1], join(want), "table "+table.Name(), join(got))))
	}
	return nil
}

// lines are those that are not empty, with one space between words.
func lines(text []byte) []string {
	var all []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// watch writes what has changed since the last watch of the table, a line for each row; at first those that there are. It waits
// until there are as many changes. Of a row that changed several times it sees the last.
func (t *tables) watch(ctx context.Context, call *Call) error {
	_, table, err := t.table(call, 2, 2)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(call.Args[1])
	if err != nil {
		return errUsage
	}
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	for seen := 0; ; {
		rows, changed := table.AllWatch(t.db.ReadTxn())
		changes := t.changes(table.Name(), rows)
		for _, c := range changes {
			if _, err := fmt.Fprintln(call.Stdout, c); err != nil {
				return err
			}
		}
		if seen += len(changes); seen >= count {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d changes of table %q: %w", seen, count, table.Name(), context.Cause(ctx))
		}
	}
}

// changes compares the rows with those that were seen before, by key.
func (t *tables) changes(table string, rows func(func(statedb.AnyRow) bool)) []string {
	before, now := t.seen[table], make(map[string]statedb.AnyRow)
	for row := range rows {
		now[row.Key] = row
	}
	t.seen[table] = now
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(now))
	slices.Sort(keys)
	var changes []string
	for _, key := range slices.Compact(keys) {
		row, there := now[key]
		old, was := before[key]
		switch {
		case !there:
			changes = append(changes, "- "+strings.Join(old.Cells, " "))
		case !was || old.Revision != row.Revision:
			changes = append(changes, "+ "+strings.Join(row.Cells, " "))
		}
	}
	return changes
}
