package file

import (
	"reflect"

	"go.yaml.in/yaml/v4"
)

// claim is an invalid document, which may declare the row of another one.
type claim struct {
	of Kind
	// covers reports whether the document may have the key of a row of its kind: whether the row keeps its key if it is given
	// those fields of the document that are valid.
	covers func(row any) bool
}

// Of a file with more invalid documents, or one with more values, it is not remembered what they say: it may declare any row.
const (
	maxClaims      = 10
	maxClaimValues = 1000
)

// claimed records an invalid document.
func (c *content) claimed(k Kind, d *decoder, document *yaml.Node) {
	if len(c.claims) == maxClaims || d.values > maxClaimValues {
		c.unclear = true
		return
	}
	d.reset(d.file, d.offset, k, document)
	c.claims = append(c.claims, claim{k, k.claim(d, document)})
}

// mayBeAny reports whether nothing is known about what a refused content declares.
func (c *content) mayBeAny() bool { return c.unclear || c.unread || c.total == 0 }

// mayDeclare returns a function that reports whether one of the contents, which are refused, may declare the row of a document.
func mayDeclare(refused []*content) func(*document) bool {
	ids := map[id]bool{}
	var claims []claim
	for _, c := range refused {
		if c.mayBeAny() {
			return func(*document) bool { return true }
		}
		for _, d := range c.docs {
			ids[d.id] = true
		}
		claims = append(claims, c.claims...)
	}
	return func(d *document) bool {
		if ids[d.id] {
			return true
		}
		for _, c := range claims {
			if c.of == d.of && c.covers(d.row) {
				return true
			}
		}
		return false
	}
}

func (k *kind[Obj]) claim(d *decoder, document *yaml.Node) (covers func(row any) bool) {
	draft := k.initial()
	from := structOf(&draft)
	var given [][]int
	d.pairs(document, "", func(key, value *yaml.Node, at string) {
		for _, f := range d.fields.structs[from.Type()] {
			before := len(d.problems) + d.more
			if f.name != key.Value {
				continue
			}
			if d.value(value, from.FieldByIndex(f.index), at); len(d.problems)+d.more == before {
				given = append(given, f.index)
			}
		}
	})
	return func(row any) bool {
		before, err := k.typed(row)
		if err != nil || k.config.Transform != nil {
			return true
		}
		after := before
		if v := reflect.ValueOf(&after).Elem(); v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(reflect.ValueOf(before).Elem())
		}
		into := structOf(&after)
		for _, index := range given {
			into.FieldByIndex(index).Set(from.FieldByIndex(index))
		}
		same := true
		if err := guard("check", func() {
			if after, err = k.normalized(after); err == nil {
				same = k.config.Table.Key(after) == k.config.Table.Key(before)
			}
		}); err != nil {
			return true
		}
		return same
	}
}

// structOf returns the struct of a row, which may be a pointer to it.
func structOf[Obj any](row *Obj) reflect.Value {
	v := reflect.ValueOf(row).Elem()
	if v.Kind() == reflect.Pointer {
		return v.Elem()
	}
	return v
}
