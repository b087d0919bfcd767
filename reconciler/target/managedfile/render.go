package managedfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/statehive/statehive/statedb"
)

// maxRendering limits the time for rendering a template.
const maxRendering = 2 * time.Second

// contentOf returns the desired content of a file, and the rendering it comes from if the row
// has a template.
func (t *Target) contentOf(ctx context.Context, txn statedb.ReadTxn, row File) (content string, r *rendering, err error) {
	if row.Template == nil {
		return *row.Content, nil, nil
	}
	r, content = t.render(ctx, txn, *row.Template)
	return content, r, r.err
}

// rendering is a template with its result.
type rendering struct {
	text string
	used map[string]statedb.Revision // by table that was read
	host string                      // the host name, if it was read
	hash string                      // of the content
	err  error
	// lacks says which table is incomplete and why; nil if all are complete.
	lacks error
}

// render renders a template.
func (t *Target) render(ctx context.Context, txn statedb.ReadTxn, text string) (r *rendering, content string) {
	r = &rendering{text: text, used: map[string]statedb.Revision{}}
	content, err := t.execute(ctx, txn, r)
	if err != nil {
		r.err = fmt.Errorf("template: %w", err)
		return r, ""
	}
	r.hash = hashOf([]byte(content))
	return r, content
}

func (t *Target) execute(ctx context.Context, txn statedb.ReadTxn, r *rendering) (string, error) {
	parsed, err := parseTemplate(r.text)
	if err != nil {
		return "", err
	}
	latest := t.now().Add(maxRendering)
	goOn := func() error {
		if t.now().After(latest) {
			return errTooSlow
		}
		return ctx.Err()
	}
	parsed.Funcs(functions(source{
		hostname: func() (string, error) {
			name, err := t.hostname()
			r.host = name
			return name, err
		},
		rows: func(table string) ([]any, error) { return t.tables.rows(t.db, txn, table, r, goOn) },
		row: func(table, key string) (map[string]any, error) {
			if err := goOn(); err != nil {
				return nil, err
			}
			return t.tables.row(t.db, txn, table, key, r)
		},
		goOn: goOn,
	}))
	var content limited
	if err := parsed.Execute(&content, nil); err != nil {
		if r.lacks != nil {
			return "", r.lacks // the missing rows may be the cause
		}
		return "", withLine(err)
	}
	return content.String(), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tables reads tables by name. It caches the rows of each, because many templates read the same
// table.
type tables struct {
	mu   sync.Mutex
	read map[string]readTable
}

type readTable struct {
	revision statedb.Revision
	rows     []any
}

// open finds a table, and notes that it was used, and whether it has all its rows.
func (*tables) open(db *statedb.DB, txn statedb.ReadTxn, name string, r *rendering) (statedb.AnyTable, error) {
	if db == nil {
		return nil, fmt.Errorf("table %q cannot be read: there is no database", name)
	}
	if name == Schema().Name || name == SeenSchema().Name {
		return nil, fmt.Errorf("table %q cannot be read: it changes with what is made of it", name)
	}
	r.used[name] = 0 // the table may be registered later
	table, err := db.Table(txn, name)
	if err != nil {
		return nil, err
	}
	r.used[name] = table.Revision(txn)
	for _, source := range table.Sources(txn) {
		switch {
		case !source.Initialized:
			r.lacks = fmt.Errorf("table %q is not complete: source %q has not delivered yet", name, source.Name)
		case source.Incomplete != "":
			r.lacks = fmt.Errorf("table %q is not complete: %s: %s", name, source.Name, source.Incomplete)
		}
	}
	return table, nil
}

// rows reads a table, until goOn returns an error.
func (t *tables) rows(db *statedb.DB, txn statedb.ReadTxn, name string, r *rendering, goOn func() error) ([]any, error) {
	table, err := t.open(db, txn, name, r)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if read, ok := t.read[name]; ok && read.revision == r.used[name] {
		return read.rows, nil
	}
	rows := []any{}
	for row := range table.All(txn) {
		if err := goOn(); err != nil {
			return nil, err
		}
		fields, err := fieldsOf(row)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", name, err)
		}
		rows = append(rows, fields)
	}
	if t.read == nil {
		t.read = map[string]readTable{}
	}
	t.read[name] = readTable{r.used[name], rows}
	return rows, nil
}

func (t *tables) row(db *statedb.DB, txn statedb.ReadTxn, name, key string, r *rendering) (map[string]any, error) {
	table, err := t.open(db, txn, name, r)
	if err != nil {
		return nil, err
	}
	row, found, err := table.Get(txn, key)
	if err != nil || !found {
		return nil, err
	}
	return fieldsOf(row)
}

// fieldsOf returns the fields of a row's JSON.
func fieldsOf(r statedb.AnyRow) (fields map[string]any, err error) {
	text, err := json.Marshal(r.Object)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		err = decoder.Decode(&fields)
	}
	if err != nil {
		return nil, fmt.Errorf("row %q as JSON: %w", r.Key, err)
	}
	for name, value := range fields {
		fields[name] = withNumbers(value)
	}
	return fields, nil
}

// withNumbers converts the numbers in a JSON value to types that templates can compare and that
// print as people write them.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		if fraction, err := v.Float64(); err == nil {
			return fraction
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return value
}
