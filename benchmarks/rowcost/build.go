package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
	"time"
)

const (
	fewTypes, manyTypes = 1, 11
	builds              = 3
)

// perType builds programs with few and with many types in a directory.
func (u usage) perType(ctx context.Context, dir string) (cost, error) {
	few, err := u.build(ctx, dir, fewTypes)
	if err != nil {
		return cost{}, err
	}
	many, err := u.build(ctx, dir, manyTypes)
	return difference(many, few, manyTypes-fewTypes), err
}

// build builds a program with so many types several times. The first time, which
// may compile what the program imports, does not count.
func (u usage) build(ctx context.Context, dir string, types int) (cost, error) {
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	least := cost{cpu: math.Inf(1)}
	for i := range 1 + builds {
		text, err := u.program(types, time.Now().UnixNano())
		if err == nil {
			err = os.WriteFile(source, text, 0o600)
		}
		if err != nil {
			return cost{}, err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, source)
		if out, err := cmd.CombinedOutput(); err != nil {
			return cost{}, fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
		if i > 0 {
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			least.cpu = min(least.cpu, used.Seconds())
		}
	}
	info, err := os.Stat(binary)
	if err != nil {
		return cost{}, err
	}
	least.kB = float64(info.Size()) / 1_000
	return least, nil
}

// program returns the source of a program. Its types of rows differ in their fields,
// as those of real programs do: what is generic is compiled once for types that do
// not. Which number it has changes nothing but that Go has to compile it.
func (u usage) program(types int, number int64) ([]byte, error) {
	values := map[string]any{"Types": types, "Reconciler": u.reconciler, "Number": number, "Star": "", "And": ""}
	if u.pointer {
		values["Star"], values["And"] = "*", "&"
	}
	var b bytes.Buffer
	err := template.Must(template.New("program").Parse(programText)).Execute(&b, values)
	return b.Bytes(), err
}

const programText = `package main

import (
	"context"
{{- if .Reconciler}}
	"iter"
{{- end}}

	"github.com/statehive/statehive/statedb"
{{- if .Reconciler}}
	"github.com/statehive/statehive/reconciler"
{{- end}}
)

var number = {{.Number}}

func main() {
	db := statedb.New()
{{- range $i := .Types}}
	use{{$i}}(db)
{{- end}}
}
{{range $i := .Types}}
type row{{$i}} struct {
	ID       uint64
	Text{{$i}} string
{{- if $.Reconciler}}
	Status   reconciler.Status
{{- end}}
}
{{if $.Reconciler}}
func (r {{$.Star}}row{{$i}}) GetStatus() reconciler.Status { return r.Status }

func (r {{$.Star}}row{{$i}}) WithStatus(s reconciler.Status) {{$.Star}}row{{$i}} {
	next := {{$.Star}}r
	next.Status = s
	return {{$.And}}next
}

type target{{$i}} struct{}

func (target{{$i}}) Init(context.Context) error { return nil }

func (target{{$i}}) Update(context.Context, statedb.ReadTxn, {{$.Star}}row{{$i}}) (reconciler.Result, error) {
	return reconciler.Result{}, nil
}

func (target{{$i}}) Delete(context.Context, statedb.ReadTxn, {{$.Star}}row{{$i}}) error { return nil }

func (target{{$i}}) Prune(context.Context, statedb.ReadTxn, iter.Seq2[{{$.Star}}row{{$i}}, statedb.Revision]) (int, error) {
	return 0, nil
}
{{end}}
func use{{$i}}(db *statedb.DB) {
	byID := statedb.NewIndex("id", func(r {{$.Star}}row{{$i}}) uint64 { return r.ID })
	schema := statedb.Schema[{{$.Star}}row{{$i}}]{Name: "rows-{{$i}}", Primary: byID}
{{- if $.Reconciler}}
	schema = reconciler.Reconciled(schema)
{{- end}}
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		panic(err)
	}
	txn, _ := db.WriteTxn(context.Background(), table)
	table.Insert(txn, {{$.And}}row{{$i}}{ID: 1})
	table.Get(txn, byID.Query(1))
	for range table.List(txn, byID.Query(1)) {
	}
	for range table.All(txn) {
	}
	table.Delete(txn, {{$.And}}row{{$i}}{ID: 1})
	txn.Commit()
{{- if $.Reconciler}}
	r, err := reconciler.New(reconciler.Params[{{$.Star}}row{{$i}}]{DB: db, Table: table, Target: target{{$i}}{}})
	if err != nil {
		panic(err)
	}
	r.Run(context.Background())
{{- end}}
}
{{end}}`
