package statedb_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

type common struct {
	Owner string `json:"owner"`
	Note  string // hidden by the one of document
}

type nextHop struct {
	Gateway netip.Addr `json:"gateway"`
	Weight  uint8      `json:"weight,omitempty"`
}

// document has a field of each kind that JSON can be decoded into.
type document struct {
	common
	Name    string             `json:"name"`
	Note    *string            `json:"Note"`
	Ratio   float64            `json:"ratio"`
	Big     int64              `json:"big,string"`
	Hops    []nextHop          `json:"hops"`
	First   *nextHop           `json:"first"`
	Labels  map[string]string  `json:"labels"`
	ByName  map[string]nextHop `json:"byName"`
	MAC     [2]int             `json:"mac"`
	Raw     []byte             `json:"raw"`
	Since   time.Time          `json:"since"`
	Any     any                `json:"any"`
	More    json.RawMessage    `json:"more"`
	Nested  []document         `json:"nested"`
	Secret  string             `json:"-"`
	private int                //nolint:unused // it must not be taken for a field of the JSON
}

func documents(t *testing.T) (*statedb.DB, statedb.AnyTable) {
	t.Helper()
	db := newDB()
	newTable(t, db, statedb.Schema[document]{
		Name:           "docs",
		Primary:        statedb.NewIndex("name", func(d document) string { return d.Name }),
		Equal:          func(a, b document) bool { return reflect.DeepEqual(a, b) },
		WritableByName: true,
	})
	table, err := db.Table(db.ReadTxn(), "docs")
	check(t, "table", err)
	return db, table
}

func putDocument(t *testing.T, db *statedb.DB, table statedb.AnyTable, text string) (row statedb.AnyRow, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		row, err = table.Insert(txn, []byte(text))
		return err
	}, table.Meta())
	return row, err
}

const fullDocument = `{
	"owner": "me", "name": "a", "Note": "n", "ratio": 0.5, "big": "7",
	"hops": [{"gateway": "192.0.2.1", "weight": 3}, {"gateway": ""}], "first": {"gateway": "2001:db8::1"},
	"labels": {"x": "y", "": "z"}, "byName": {"one": {"weight": 1}}, "mac": [1, 2], "raw": "AAEC",
	"since": "2020-01-02T03:04:05Z", "any": {"deep": [1, null, "x"]}, "more": {"any":1}, "nested": [{"name": "b", "more": null}]
}`

// What `get -o json` prints of a row can be written again.
func TestARowsOwnJSONIsTheRow(t *testing.T) {
	db, table := documents(t)
	for _, text := range []string{fullDocument, `{"name": "zero", "more": null}`} {
		row, err := putDocument(t, db, table, text)
		check(t, "insert", err)
		own, err := json.Marshal(row.Object)
		check(t, "marshal", err)
		again, err := putDocument(t, db, table, string(own))
		check(t, "insert again", err)
		if again.Revision != row.Revision {
			t.Errorf("written again, %s became another row: %s", own, gocmp.Diff(row.Cells, again.Cells))
		}
	}
}

func TestBadRowsSayWhichFieldAndWhatIsExpected(t *testing.T) {
	db, table := documents(t)
	for text, want := range map[string]string{
		``:                         "expected a row as JSON, got nothing",
		" \n":                      "expected a row as JSON, got nothing",
		`null`:                     "expected an object, got null",
		`7`:                        "expected an object, got number",
		`"a"`:                      "expected an object, got string",
		`[{"name": "a"}]`:          "expected an object, got an array",
		"{\"name\": \"a\",\n nam}": "line 2, column 2: invalid character 'n' looking for beginning of object key string",
		`{"name": "a"`:             "line 1, column 12: unexpected end of JSON input",
		`{"name": "a"} {}`:         "line 1, column 15: invalid character '{' after top-level value",
		`{"ratio": NaN}`:           "line 1, column 11: invalid character 'N' looking for beginning of value",
		`{"ratio": 1e999}`:         `field "ratio": expected float64, got number 1e999`,
		"{\"name\": \"\xff\"}":     "the text is not UTF-8",
		`{"name":"\\\ud83d"}`:      `line 1, column 12: \ud83d is half of a character`,
		`{"name":"\udc00\ud800"}`:  `line 1, column 10: \udc00 is half of a character`,
		"{\n \"\\ud83dx\": 1}":     `line 2, column 3: \ud83d is half of a character`,
		`{"nam": "a"}`: `unknown field "nam"; there are: name, Note, ratio, big, hops, first, labels, byName, mac, raw, ` +
			`since, any, more, nested, owner`,
		`{"Name": "a"}`:                    `unknown field "Name"; there are: name`,
		`{"Secret": "a"}`:                  `unknown field "Secret"; there are: name`,
		`{"private": 1}`:                   `unknown field "private"; there are: name`,
		`{"common": {}}`:                   `unknown field "common"; there are: name`,
		`{"name": "a", "name": "b"}`:       `duplicate field "name"`,
		`{"labels": {"x": "1", "x": "2"}}`: `duplicate field "labels.x"`,
		`{"name": 7}`:                      `field "name": expected string, got number`,
		`{"name": null}`:                   `field "name": expected string, got null`,
		`{"name": {"a": 1}}`:               `field "name": expected string, got object`,
		`{"ratio": "1"}`:                   `field "ratio": expected float64, got string`,
		`{"hops": {}}`:                     `field "hops": expected an array, got an object`,
		`{"hops": [{"gateway": "10.0.0.1"}, {"gateway": "10.0.0.300"}]}`: `field "hops[1].gateway": ParseAddr("10.0.0.300"): IPv4 field has value >255`,
		`{"hops": [null]}`:                    `field "hops[0]": expected an object, got null`,
		`{"hops": [{"weight": 256}]}`:         `field "hops[0].weight": expected uint8, got number 256`,
		`{"hops": [{"wait": 1}]}`:             `field "hops[0]": unknown field "wait"; there are: gateway, weight`,
		`{"first": {"gateway": null}}`:        `field "first.gateway": expected netip.Addr, got null`,
		`{"byName": {"one": {"weight": -1}}}`: `field "byName.one.weight": expected uint8, got number -1`,
		`{"mac": [1]}`:                        `field "mac": expected an array of 2, got 1`,
		`{"mac": [1, 2, 3]}`:                  `field "mac": expected an array of 2, got 3`,
		`{"mac": null}`:                       `field "mac": expected an array, got null`,
		`{"raw": "?"}`:                        `field "raw": illegal base64 data`,
		`{"since": "yesterday"}`:              `field "since": parsing time "yesterday"`,
		`{"big": 7}`:                          `invalid use of ,string struct tag`,
		`{"owner": 1}`:                        `field "owner": expected string, got number`,
		`{"Note": 1}`:                         `field "Note": expected string, got number`,
		`{"nested": ` + strings.Repeat(`[{"nested": `, 6000) + `1` + strings.Repeat(`}]`, 6000) + `}`: "exceeded max depth",
	} {
		_, err := putDocument(t, db, table, text)
		wantError(t, err, statedb.ErrBadRow)
		if !strings.HasPrefix(err.Error(), "table docs: bad row: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s\ngives  %v\nexpected %s", text, err, want)
		}
	}
	if n := table.Revision(db.ReadTxn()); n != 0 {
		t.Errorf("revision %d after nothing but bad rows", n)
	}
}

func TestOtherRowTypesAreDecodedToo(t *testing.T) {
	db := newDB()
	newTable(t, db, statedb.Schema[*item]{
		Name: "pointers", Primary: statedb.NewIndex("id", func(i *item) string { return i.ID }), WritableByName: true,
	})
	newTable(t, db, statedb.Schema[string]{
		Name: "names", Primary: statedb.NewIndex("name", func(s string) string { return s }), WritableByName: true,
	})
	for name, rows := range map[string]map[string]string{
		"pointers": {`{"ID": "a"}`: "", `null`: "expected an object, got null", `{"id": "a"}`: `unknown field "id"`},
		"names":    {`"a"`: "", `null`: "expected string, got null", `7`: "expected string, got number"},
	} {
		table, err := db.Table(db.ReadTxn(), name)
		check(t, "table", err)
		for text, want := range rows {
			row, err := putDocument(t, db, table, text)
			if want == "" && (err != nil || row.Key != "a") {
				t.Errorf("%s: %s gives %+v, %v", name, text, row, err)
			}
			if want != "" && !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %s gives %v, expected %s", name, text, err, want)
			}
		}
	}
}

type (
	seller struct{ Name, Shop string }
	buyer  struct{ Name, Home string }
	sale   struct {
		seller
		buyer
		ID string
	}
)

// A field that two embedded structs have is no field of the row: encoding/json
// passes over it.
func TestAnAmbiguousFieldIsRefused(t *testing.T) {
	db := newDB()
	newTable(t, db, statedb.Schema[sale]{
		Name: "sales", Primary: statedb.NewIndex("id", func(s sale) string { return s.ID }), WritableByName: true,
	})
	sales, err := db.Table(db.ReadTxn(), "sales")
	check(t, "table", err)
	_, err = putDocument(t, db, sales, `{"ID": "1", "Shop": "s", "Home": "h"}`)
	check(t, "fields of embedded structs", err)
	_, err = putDocument(t, db, sales, `{"ID": "1", "Name": "n"}`)
	wantError(t, err, statedb.ErrBadRow)
	if !strings.Contains(err.Error(), `unknown field "Name"`) {
		t.Errorf("error %v", err)
	}
}

// FuzzInsertByName looks for texts that are taken for a row which is not what
// they say: the row's own JSON must be the same row.
func FuzzInsertByName(f *testing.F) {
	for _, seed := range []string{
		fullDocument, `{}`, `{"name": "\u0000/%"}`, `{"name": "a", "name": "b"}`, `{"NAME": "a"}`, `{"ratio": 1e308}`, `{"hops": [{}, {}]}`,
		`{"any": [[[[]]]]}`, `{"nested": [{"nested": []}]}`, `{"more": 1}`, `{"big": "x"}`, `[]`, `null`, "\xff", `{"ratio": -0}`,
		`{"name": "\ud83d\ude00\\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		db, table := documents(t)
		row, err := putDocument(t, db, table, string(text))
		if err != nil {
			wantError(t, err, statedb.ErrBadRow)
			return
		}
		var plain document
		if err := json.Unmarshal(text, &plain); err != nil || !reflect.DeepEqual(plain, row.Object) {
			t.Fatalf("%s gives %+v; as plain JSON it is %+v, %v", text, row.Object, plain, err)
		}
		own, err := json.Marshal(row.Object)
		check(t, "marshal", err)
		again, err := putDocument(t, db, table, string(own))
		check(t, fmt.Sprintf("%s, written again as %s", text, own), err)
		if twice, err := json.Marshal(again.Object); err != nil || string(twice) != string(own) {
			t.Errorf("%s reads as %s, and that as %s, %v", text, own, twice, err)
		}
	})
}
