package dbcell

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

func TestRowsAreSentWhileTheTableIsRead(t *testing.T) {
	recorder := httptest.NewRecorder()
	read, held := 0, 0
	rows := func(yield func(statedb.AnyRow) bool) {
		for ; read < 10_000; read++ {
			before := recorder.Body.Len()
			if !yield(statedb.AnyRow{Key: fmt.Sprint(read), Object: strings.Repeat("x", 100)}) {
				return
			}
			held += 100
			if recorder.Body.Len() > before {
				held = 0
			}
			if held > 2*streamBuffer {
				t.Fatalf("after %d rows, %d bytes were read and nothing sent", read, held)
			}
		}
	}
	writeListing(recorder, listing{Table: "many"}, rows)
	var got received
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil || len(got.Rows) != read {
		t.Errorf("%d of %d rows arrived: %v", len(got.Rows), read, err)
	}
}

func TestRowThatCannotBeEncodedDoesNotHideTheOthers(t *testing.T) {
	rows := slices.Values([]statedb.AnyRow{
		{Key: "a", Revision: 1, Cells: []string{"1"}, Object: 1},
		{Key: "b", Revision: 2, Cells: []string{"NaN"}, Object: math.NaN()},
		{Key: "c", Revision: 3, Cells: []string{"<3>"}, Object: "<3>"},
	})
	var text strings.Builder
	if err := stream(&text, listing{Table: "numbers", Revision: 3, Columns: []string{"Value"}}, rows); err != nil {
		t.Fatal(err)
	}
	want := `{"table":"numbers","revision":3,"columns":["Value"],"rows":[
{"key":"a","revision":1,"cells":["1"],"object":1}
,{"key":"b","revision":2,"cells":["NaN"],"object":null,"error":"json: unsupported value: NaN"}
,{"key":"c","revision":3,"cells":["<3>"],"object":"<3>"}
]}
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

// brokenPipe fails once it has taken some writes.
type brokenPipe struct{ writes int }

var errGone = errors.New("client has gone")

func (w *brokenPipe) Write(p []byte) (int, error) {
	if w.writes--; w.writes < 0 {
		return 0, errGone
	}
	return len(p), nil
}

func TestReadingEndsWhenTheClientHasGone(t *testing.T) {
	read := 0
	var endless iter.Seq[statedb.AnyRow] = func(yield func(statedb.AnyRow) bool) {
		for ; yield(statedb.AnyRow{}); read++ {
			if read > 10 {
				t.Fatal("rows are read for nobody")
			}
		}
	}
	if err := stream(&brokenPipe{writes: 3}, listing{}, endless); !errors.Is(err, errGone) || read != 2 {
		t.Errorf("got %v after %d rows", err, read)
	}
}

func TestHeadingSeparatesWords(t *testing.T) {
	for name, want := range map[string]string{
		"Name": "NAME", "MTU": "MTU", "LastError": "LAST-ERROR", "MTUMax": "MTU-MAX", "ModuleID": "MODULE-ID",
		"IPv4": "IPV4", "MyIPv6Only": "MY-IPV6-ONLY", "Öse": "ÖSE", "": "", "X": "X", "PeerX": "PEER-X",
	} {
		if got := heading(name); got != want {
			t.Errorf("heading(%q) is %q, want %q", name, got, want)
		}
	}
}
