package dbcell

import (
	"net/http"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

// tableList is the answer to GET /v1/tables.
type tableList struct {
	Tables []tableInfo `json:"tables"`
}

type tableInfo struct {
	Name     string           `json:"name"`
	Rows     int              `json:"rows"`
	Revision statedb.Revision `json:"revision"`
	Indexes  []string         `json:"indexes"` // the primary one first
	Sources  []sourceInfo     `json:"sources"`
	Writable bool             `json:"writable,omitempty"` // by name
	Memory   *memoryInfo      `json:"memory,omitempty"`   // if it was requested
}

// memoryInfo is an estimate in bytes.
type memoryInfo struct {
	Rows    int `json:"rows"`
	Indexes int `json:"indexes"`
	Changes int `json:"changes"` // changes that are kept for cursors
}

func (m memoryInfo) total() int { return m.Rows + m.Indexes + m.Changes }

type sourceInfo struct {
	Name        string `json:"name"`
	Initialized bool   `json:"initialized"`
	Incomplete  string `json:"incomplete,omitempty"` // the reason
}

// String returns the name of the source, and whether it is incomplete or not initialized.
func (s sourceInfo) String() string {
	switch {
	case s.Incomplete != "":
		return s.Name + " (incomplete: " + s.Incomplete + ")"
	case !s.Initialized:
		return s.Name + " (not initialized)"
	}
	return s.Name
}

func listTables(db *statedb.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.RawQuery, []string{paramMemory})
		var measured bool
		if err == nil {
			measured, err = q.flag(paramMemory)
		}
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		txn := db.ReadTxn()
		list := tableList{Tables: []tableInfo{}}
		for _, t := range db.Tables(txn) {
			info := describe(t, txn)
			if measured {
				m := t.Memory(txn)
				info.Memory = &memoryInfo{Rows: m.Rows, Indexes: m.Indexes, Changes: m.Changes}
			}
			list.Tables = append(list.Tables, info)
		}
		inspect.WriteJSON(w, list)
	})
}

func describe(t statedb.AnyTable, txn statedb.ReadTxn) tableInfo {
	info := tableInfo{
		Name:     t.Name(),
		Rows:     t.Len(txn),
		Revision: t.Revision(txn),
		Indexes:  t.Indexes(),
		Sources:  []sourceInfo{},
		Writable: t.Writable(txn) == nil,
	}
	for _, s := range t.Sources(txn) {
		info.Sources = append(info.Sources, sourceInfo{Name: s.Name, Initialized: s.Initialized, Incomplete: s.Incomplete})
	}
	return info
}
