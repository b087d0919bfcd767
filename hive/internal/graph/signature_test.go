package graph_test

import (
	"testing"

	"github.com/statehive/statehive/hive/cell"
)

// The container would ignore a misspelled tag: the value would be lost, or another one injected.
//
//nolint:misspell // which is what the test is about
func TestMisspelledTagsOfParametersAndResultsAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		cell cell.Cell
		want string
	}{
		"letter missing": {cell.Provide(func() (r struct {
			cell.Out
			Route int `grup:"routes"`
		},
		) {
			return r
		}), `unknown tag "grup": write group:"routes"`},
		"gorup": {cell.Provide(func() (r struct {
			cell.Out
			Route int `gorup:"routes"`
		},
		) {
			return r
		}), `unknown tag "gorup": write group:"routes"`},
		"gruop": {cell.Provide(func() (r struct {
			cell.Out
			Route int `gruop:"routes,flatten"`
		},
		) {
			return r
		}), `unknown tag "gruop": write group:"routes,flatten"`},
		"nmae": {cell.Invoke(func(struct {
			cell.In
			Primary int `nmae:"x"`
		}) {
		}), `unknown tag "nmae": write name:"x"`},
		"naem": {cell.Invoke(func(struct {
			cell.In
			Primary int `naem:"x"`
		}) {
		}), `unknown tag "naem": write name:"x"`},
		"opitonal": {cell.Invoke(func(struct {
			cell.In
			Replica int `opitonal:"true"`
		}) {
		}), `unknown tag "opitonal": write optional:"true"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newGraph(t, cell.Module("m", "", tt.cell))
			wantError(t, err, tt.want, "signature_test.go:", `module "m"`)
		})
	}
}

func TestOtherTagsOfParametersAndResultsAreLeftAlone(t *testing.T) {
	type params struct {
		cell.In
		Number int `json:"number" yaml:"number" doc:"a number" shape:"2"`
	}
	if _, err := newGraph(t, cell.Supply(1), cell.Invoke(func(params) {})); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfParameterStructsAreNamedAsTheyAreWritten(t *testing.T) {
	type optional struct {
		cell.In
		Apple *apple `optional:"yes"`
	}
	type forgotten struct {
		Apple *apple `name:"red"`
	}
	type pointer struct {
		*cell.In
	}
	for name, tt := range map[string]struct {
		cell cell.Cell
		want []string
	}{
		"optional":      {cell.Invoke(func(optional) {}), []string{`bad field "Apple"`, `optional:"yes": expected "true", or no such tag`}},
		"forgotten In":  {cell.Invoke(func(forgotten) {}), []string{"missing type graph_test.forgotten (embed cell.In in it, for its fields to be injected)"}},
		"pointer to In": {cell.Invoke(func(pointer) {}), []string{"*cell.In"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, construct(t, tt.cell), append(tt.want, "signature_test.go:")...)
		})
	}
}
