package immutable_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// port is an element that is itself made of several things.
type port struct {
	Name   string `json:"name"`
	Number int    `json:"number,omitempty"`
}

func TestListsWithTheSameElementsAreEqual(t *testing.T) {
	items := []port{{"http", 80}, {"https", 443}, {"http", 80}}
	list := immutable.ListOf(items...)
	for name, c := range map[string]struct {
		other []port
		want  bool
	}{
		"the same":      {slices.Clone(items), true},
		"another order": {[]port{items[1], items[0], items[2]}, false},
		"fewer":         {items[:2], false},
		"more":          {append(slices.Clone(items), port{}), false},
		"none":          {nil, false},
	} {
		other := immutable.ListOf(c.other...)
		if (list == other) != c.want {
			t.Errorf("%s: equal %v, expected %v", name, list == other, c.want)
		}
		if !slices.Equal(other.Slice(), c.other) || other.Len() != len(c.other) || other.IsZero() != (len(c.other) == 0) {
			t.Errorf("%s: %v has %d elements, zero %v", name, other, other.Len(), other.IsZero())
		}
	}
	items[0].Number = 8080
	if got := list.Slice()[0].Number; got != 80 {
		t.Errorf("the list follows a change of the slice it was made of: %d", got)
	}
	for i := range list.All() {
		if i > 0 {
			t.Fatal("All goes on after a break")
		}
		break
	}
}

func TestListsComeBackFromJSON(t *testing.T) {
	for want, list := range map[string]immutable.List[port]{
		`[]`:                                    {},
		`[{"name":"a"}]`:                        immutable.ListOf(port{Name: "a"}),
		`[{"name":"b","number":1},{"name":""}]`: immutable.ListOf(port{"b", 1}, port{}),
	} {
		text, err := json.Marshal(list)
		if err != nil || string(text) != want {
			t.Errorf("%v is %s, %v", list, text, err)
		}
		var back immutable.List[port]
		if err := json.Unmarshal(text, &back); err != nil || back != list {
			t.Errorf("%s comes back as %v, %v", text, back, err)
		}
	}
	list := immutable.ListOf(1)
	if err := json.Unmarshal([]byte(`{}`), &list); err == nil || list != immutable.ListOf(1) {
		t.Errorf("a mapping is taken for a list: %v, %v", list, err)
	}
	if err := json.Unmarshal([]byte(`null`), &list); err != nil || !list.IsZero() {
		t.Errorf("null is %v, %v", list, err)
	}
	if got := fmt.Sprint(immutable.ListOf("a", "b")); got != "a,b" {
		t.Errorf("as text: %q", got)
	}
}

func TestARowWithAListIsComparable(t *testing.T) {
	type row struct {
		ID    int
		Ports immutable.List[port]
	}
	db := statedb.New()
	table, err := statedb.NewTable(db, statedb.Schema[row]{Name: "rows", Primary: statedb.NewIndex("id", func(r row) int { return r.ID })})
	if err != nil {
		t.Fatal(err)
	}
	write := func(ports ...port) statedb.Revision {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, row{1, immutable.ListOf(ports...)})
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		return table.Revision(db.ReadTxn())
	}
	first, again, changed := write(port{"a", 1}), write(port{"a", 1}), write(port{"a", 2})
	if first != again || changed == again {
		t.Errorf("revisions %d, %d, %d: expected that the second write is none", first, again, changed)
	}
}
