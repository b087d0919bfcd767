package dbcell_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

func (a *agent) get(path, query string) (answer map[string]any, err error) {
	a.t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		a.t.Fatal(err)
	}
	err = a.client().Get(a.t.Context(), path, q, &answer)
	return answer, err
}

func TestTablesEndpointDescribesEveryTable(t *testing.T) {
	a := startAgent(t)
	a.insert(append(fourPorts(), note{Name: "a"})...)
	a.update(func(txn *statedb.WriteTxn) error {
		for _, name := range []string{"files", "net", "wire"} {
			source, err := a.ports.RegisterSource(txn, name)
			if err != nil {
				return err
			}
			switch name {
			case "files":
				err = source.Initialized(txn)
			case "net":
				err = errors.Join(source.Initialized(txn), source.Incomplete(txn, "server is away"))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	var got struct{ Tables []map[string]any }
	if err := a.client().Get(t.Context(), "/v1/tables", nil, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"name": "notes", "rows": 1.0, "revision": 1.0, "indexes": []any{"name", "only"}, "sources": []any{}, "writable": true},
		{"name": "ports", "rows": 4.0, "revision": 4.0, "indexes": []any{"key", "peer", "status"}, "sources": []any{
			map[string]any{"name": "files", "initialized": true},
			map[string]any{"name": "net", "initialized": true, "incomplete": "server is away"},
			map[string]any{"name": "wire", "initialized": false},
		}},
	}
	if len(got.Tables) < 2 || got.Tables[0]["name"] != "health" || got.Tables[1]["name"] != "jobs" {
		t.Fatalf("the own tables of the hive are not the first: %v", got.Tables)
	}
	if diff := cmp.Diff(want, got.Tables[2:]); diff != "" {
		t.Error(diff)
	}
}

func TestRowsEndpointGivesCellsAndObject(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	got, err := a.get("/v1/tables/ports", "key=eth0+80")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"table": "ports", "revision": 4.0, "columns": []any{"Device", "Number", "PeerName", "Status"},
		"rows": []any{map[string]any{
			"key": "eth0 80", "revision": 2.0,
			"cells":  []any{"eth0", "80", "right", "error: no <route> to right"},
			"object": map[string]any{"device": "eth0", "number": 80.0, "peerName": "right", "status": "error: no <route> to right"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRowsEndpointSelectsRows(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for query, want := range map[string][]string{
		"":                        {"eth0 22", "eth0 80", "eth1 22", "wlan0 1"},
		"key=eth1+22":             {"eth1 22"},
		"index=peer&value=left":   {"eth0 22", "eth1 22"},
		"index=peer&value=":       {"wlan0 1"},
		"index=peer&value=lef":    nil,
		"index=key&value=eth1+22": {"eth1 22"},
		"status=done":             {"eth0 22"},
		"status=pending":          {"eth1 22"},
		"status=error":            {"eth0 80", "wlan0 1"},
		"status=error&limit=1":    {"eth0 80"},

		"status=error&limit=1&reverse=true":   {"wlan0 1"},
		"reverse":                             {"wlan0 1", "eth1 22", "eth0 80", "eth0 22"},
		"reverse=false&limit=2":               {"eth0 22", "eth0 80"},
		"limit=0":                             nil,
		"index=peer&prefix=le":                {"eth0 22", "eth1 22"},
		"index=peer&prefix=le&reverse":        {"eth1 22", "eth0 22"},
		"index=peer&from=m":                   {"eth0 80"},
		"index=peer&from=&to=m":               {"wlan0 1", "eth0 22", "eth1 22"},
		"from=eth0+80":                        {"eth0 80", "eth1 22", "wlan0 1"},
		"from=eth0+30&to=eth1+22":             {"eth0 80"},
		"from=eth0+30&to=eth2+0&reverse=true": {"eth1 22", "eth0 80"},
	} {
		var got struct{ Rows []struct{ Key string } }
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.client().Get(t.Context(), "/v1/tables/ports", q, &got); err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var keys []string
		for _, r := range got.Rows {
			keys = append(keys, r.Key)
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

const needsKeys = `parameter "index" needs one of value, prefix and from, which select keys of the index`

func TestWrongRequestsAreToldWhatExists(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for request, want := range map[string]inspect.APIError{
		"nets": {Status: http.StatusNotFound, Message: `no such table "nets"; there are: health, jobs, notes, ports`},
		"ports?key=eth0+81": {
			Status:  http.StatusNotFound,
			Message: `table ports, row "eth0 81": no such row; of its 4 rows, 1 begins with "eth0 8": eth0 80`,
		},
		"ports?key=ETH0+9": {
			Status:  http.StatusNotFound,
			Message: `table ports, row "ETH0 9": no such row; of its 4 rows, 2 begin with "eth0 ": eth0 22, eth0 80`,
		},
		"ports?key=lo+1": {
			Status:  http.StatusNotFound,
			Message: `table ports, row "lo 1": no such row; it has 4 rows: eth0 22, eth0 80, eth1 22, wlan0 1`,
		},
		"ports?key=eth1": {
			Status:  http.StatusBadRequest,
			Message: `table ports: bad key for index "key": "eth1" is not a device and a number: EOF; of its 4 rows, 1 begins with "eth1": eth1 22`,
		},
		"notes?key=a": {Status: http.StatusNotFound, Message: `table notes, row "a": no such row; the table is empty`},
		"ports?index=name&value=a": {
			Status: http.StatusBadRequest, Message: `table ports: no such index "name"; there are: key, peer, status`,
		},
		"ports?status=broken": {
			Status: http.StatusBadRequest, Message: `unknown status "broken"; there are: pending, done, error`,
		},
		"notes?status=done": {
			Status: http.StatusBadRequest, Message: `table notes: its rows have no status: no column "Status"; there are: Name, Text`,
		},
		"ports?peer=left": {
			Status:  http.StatusBadRequest,
			Message: `unknown parameter "peer"; there are: key, index, value, prefix, from, to, status, reverse, limit, watch`,
		},
		"ports?value=left":          {Status: http.StatusBadRequest, Message: `parameter "value" needs "index", the index of the key`},
		"ports?to=a":                {Status: http.StatusBadRequest, Message: `parameter "to" needs "from", the first key`},
		"ports?limit=-1":            {Status: http.StatusBadRequest, Message: `parameter "limit" is "-1", expected a number of rows`},
		"ports?reverse=yes":         {Status: http.StatusBadRequest, Message: `parameter "reverse" is "yes", expected true or false`},
		"ports?index=peer&status=x": {Status: http.StatusBadRequest, Message: needsKeys},
		"ports?key=a&key=b":         {Status: http.StatusBadRequest, Message: `parameter "key" is given 2 times, expected once`},
		"ports?index=peer":          {Status: http.StatusBadRequest, Message: needsKeys},
		"ports?key=a&status=done": {
			Status: http.StatusBadRequest, Message: `rows are selected by key and status, expected one of them`,
		},
	} {
		u, err := url.Parse(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.get("/v1/tables/"+u.Path, u.RawQuery)
		var got *inspect.APIError
		if !errors.As(err, &got) {
			t.Errorf("%s: got %v, want an APIError", request, err)
		} else if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s: %s", request, diff)
		}
	}
}

func TestSimilarKeysAreFewAndCounted(t *testing.T) {
	a := startAgent(t)
	for number := range uint16(12) {
		a.insert(port{Device: "eth0", Number: 100 + number})
	}
	a.insert(port{Device: "lo", Number: 1})
	_, err := a.get("/v1/tables/ports", "key=eth0+1")
	want := `table ports, row "eth0 1": no such row; of its 13 rows, 12 begin with "eth0 1": ` +
		`eth0 100, eth0 101, eth0 102, eth0 103, eth0 104 and 7 more`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestMemoryIsEstimatedOnRequest(t *testing.T) {
	a := startAgent(t)
	a.insert(fourPorts()...)
	for query, want := range map[string]bool{"": false, "memory": true, "memory=true": true, "memory=false": false} {
		got, err := a.get("/v1/tables", query)
		if err != nil {
			t.Fatal(err)
		}
		tables := got["tables"].([]any)
		memory, ok := tables[len(tables)-1].(map[string]any)["memory"].(map[string]any)
		if ok != want {
			t.Errorf("%q: memory is %v", query, memory)
		}
		if want && (memory["rows"].(float64) < 100 || memory["indexes"].(float64) < 100) {
			t.Errorf("%q: memory is %v", query, memory)
		}
	}
	for _, query := range []string{"memory=1", "mem"} {
		var got *inspect.APIError
		if _, err := a.get("/v1/tables", query); !errors.As(err, &got) || got.Status != http.StatusBadRequest {
			t.Errorf("%q: got %v", query, err)
		}
	}
}

func TestEmptyTableHasAnEmptyListOfRows(t *testing.T) {
	a := startAgent(t)
	var got struct{ Rows json.RawMessage }
	if err := a.client().Get(t.Context(), "/v1/tables/notes", nil, &got); err != nil || string(got.Rows) != "[]" {
		t.Errorf("got %s, %v", got.Rows, err)
	}
}
