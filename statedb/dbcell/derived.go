package dbcell

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/statedb/derive"
)

// checkDerived returns an error if nothing in the hive depends on one of its derivations, so that nothing can run it. Its table would
// never be filled, and everything that waits for the table would wait for ever.
func checkDerived(h hive.Inspector) error {
	derivation, _, _ := strings.Cut(reflect.TypeFor[*derive.Derivation[int, int]]().String(), "[")
	for _, m := range h.Describe().Cells.Modules {
		for _, f := range m.Functions {
			for _, made := range f.Provides {
				if !f.Used && strings.HasPrefix(made, derivation+"[") {
					return fmt.Errorf("module %q: nothing runs the derivation %s that %s makes: add a job that calls its method Run", m.ID, made, f.Name)
				}
			}
		}
	}
	return nil
}
