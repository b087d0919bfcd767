package file

import (
	"reflect"

	"go.yaml.in/yaml/v4"
)

// claim is what an invalid document may declare.
type claim struct {
	of Kind
	// covers reports whether the document may declare a row of its kind: whether the row, given the valid fields of the document, keeps
	// its key.
	covers func(row any) bool
}

// Beyond these limits, invalid documents are not compared with rows: they may declare any.
const (
	maxClaims      = 10   // of a file
	maxClaimValues = 1000 // in one of them
	maxAllClaims   = 100  // of all files
)

// unknown is the content of a file that has not been read.
var unknown = &content{unclear: true}

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

// mayDeclare returns a function that reports whether one of the contents may declare the row of a document.
func mayDeclare(contents []*content) func(*document) bool {
	ids := map[id]bool{}
	var claims []claim
	for _, c := range contents {
		if c.mayBeAny() || len(claims) > maxAllClaims {
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
	for _, f := range d.fields.structs[from.Type()] {
		values := valuesOf(document, f.name)
		if len(values) != 1 {
			continue // one that is given twice may be meant either way
		}
		before := len(d.problems) + d.more
		if d.field(values[0], from.FieldByIndex(f.index), f.name); len(d.problems)+d.more == before {
			given = append(given, f.index)
		}
	}
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

// valuesOf returns the values of a field of a document.
func valuesOf(document *yaml.Node, field string) (values []*yaml.Node) {
	for i := 0; i+1 < len(document.Content); i += 2 {
		if document.Content[i].Value == field {
			values = append(values, document.Content[i+1])
		}
	}
	return values
}

// structOf returns the struct of a row, which may be a pointer to it.
func structOf[Obj any](row *Obj) reflect.Value {
	v := reflect.ValueOf(row).Elem()
	if v.Kind() == reflect.Pointer {
		return v.Elem()
	}
	return v
}
