package dbcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

const watchLong = `With --watch, the current rows are printed and then their changes, each after "upsert" or "delete", until the command is
interrupted. In JSON, each is a line of its own; a line of the kind "current" follows when all rows up to a revision were printed.`

// receivedLine is a line of a watched listing as decoded by a client.
type receivedLine struct {
	Kind    string   `json:"kind"`
	Columns []string `json:"columns"`
	receivedRow
}

// printedLine is a line as `get --watch -o json` prints it.
type printedLine struct {
	Kind     string           `json:"kind"`
	Key      string           `json:"key,omitempty"`
	Revision statedb.Revision `json:"revision,omitempty"`
	Object   json.RawMessage  `json:"object,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// follow passes on the lines of a watched listing until the agent or ctx ends.
func follow(ctx context.Context, client *inspect.Client, path string, q url.Values, tell func(receivedLine) error) error {
	for text, err := range client.Follow(ctx, path, q) {
		var line receivedLine
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		if err == nil && line.Kind == watchError {
			err = errors.New(line.Error)
		}
		if err == nil {
			err = tell(line)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the agent has stopped: no more changes of %s", path)
}

// printer returns a function that prints lines.
func printer(out io.Writer, format cli.Format) func(receivedLine) error {
	if format == cli.FormatJSON {
		return func(line receivedLine) error {
			if line.Kind == watchHead {
				return nil
			}
			return cli.WriteJSON(out, printedLine{Kind: line.Kind, Key: line.Key, Revision: line.Revision, Object: line.Object, Error: line.Error}, "")
		}
	}
	p := &tablePrinter{out: &cli.TableWriter{Out: out}, cells: map[string][]string{}}
	return p.print
}

// tablePrinter prints the changes of one comparison together.
type tablePrinter struct {
	out   *cli.TableWriter
	rows  [][]string
	cells map[string][]string // the cells of the current rows, by key, to be printed with deletes
}

func (p *tablePrinter) print(line receivedLine) error {
	switch line.Kind {
	case watchHead:
		p.rows = append(p.rows, append([]string{"CHANGE"}, received{Columns: line.Columns}.headings()...))
	case watchUpsert:
		p.cells[line.Key] = line.Cells
		p.rows = append(p.rows, append([]string{line.Kind}, line.Cells...))
	case watchDelete:
		p.rows = append(p.rows, append([]string{line.Kind}, p.cells[line.Key]...))
		delete(p.cells, line.Key)
	case watchCurrent:
		rows := p.rows
		p.rows = nil
		return p.out.Write(rows)
	}
	return nil
}
