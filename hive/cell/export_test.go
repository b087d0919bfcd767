package cell

import "reflect"

// ConfigOf is Config for a struct whose type is made at run time.
func ConfigOf(defaults reflect.Value) Cell {
	return &config{defaults: defaults, at: caller()}
}
