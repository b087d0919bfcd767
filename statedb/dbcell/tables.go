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
}

type sourceInfo struct {
	Name        string `json:"name"`
	Initialized bool   `json:"initialized"`
	Incomplete  string `json:"incomplete,omitempty"` // why
}

// String says what is still to come from the source, if anything.
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
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		txn := db.ReadTxn()
		list := tableList{Tables: []tableInfo{}}
		for _, t := range db.Tables(txn) {
			list.Tables = append(list.Tables, describe(t, txn))
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
	}
	for _, s := range t.Sources(txn) {
		info.Sources = append(info.Sources, sourceInfo{Name: s.Name, Initialized: s.Initialized, Incomplete: s.Incomplete})
	}
	return info
}
