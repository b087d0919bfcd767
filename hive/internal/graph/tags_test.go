package graph_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

type common struct {
	Depth int `flag:"depth" usage:"how deep"`
}

type checked struct{ common }

func (checked) Validate() error { return errors.New("refused") }

type alsoChecked struct {
	Name string `flag:"name"`
}

func (alsoChecked) Validate() error { return errors.New("refused too") }

type validatesOtherwise struct{ common }

func (validatesOtherwise) Validate() bool { return false }

// dirTagged returns a configuration with a setting Dir that has this tag, which vet would refuse in source code.
func dirTagged(tag reflect.StructTag) reflect.Value {
	return reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Dir", Type: reflect.TypeFor[string](), Tag: tag}})).Elem()
}

// What looks like a setting and would never be set is an error of New: it names the configuration, the field, and what to write.
//
//nolint:staticcheck // bad tags are what the test is about
func TestSettingsThatWouldBeSilentlyLostAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		config cell.Cell
		want   []string
	}{
		"misspelled key": {cell.Config(struct {
			Dir string `flga:"dir"`
		}{}), []string{"field Dir", `unknown tag "flga": write flag:"dir"`}},
		"key with a capital": {cell.Config(struct {
			Dir string `Flag:"dir"`
		}{}), []string{"field Dir", `unknown tag "Flag": write flag:"dir"`}},
		"misspelled secret": {cell.Config(struct {
			Key string `flag:"key" secert:"true"`
		}{}), []string{"field Key", `unknown tag "secert": write secret:"true"`}},
		"secret that is not one": {cell.Config(struct {
			Key string `flag:"key" secret:"yes"`
		}{}), []string{"field Key", `secret:"yes": expected "true"`}},
		"equals sign":           {configOf(dirTagged(`flag="dir"`)), []string{"field Dir", "bad tag at flag=", `expected key:"value"`}},
		"no quotes":             {configOf(dirTagged(`flag:dir`)), []string{"field Dir", "bad tag at flag:dir"}},
		"space after the colon": {configOf(dirTagged(`flag: "dir"`)), []string{"field Dir", "bad tag at flag: "}},
		"no space between":      {configOf(dirTagged(`flag:"dir",usage:"where"`)), []string{"field Dir", "bad tag at ,usage", "expected a space"}},
		"twice": {cell.Config(struct {
			Dir string `flag:"dir" flag:"directory"`
		}{}), []string{"field Dir", `the tag "flag" twice`}},
		"usage alone": {cell.Config(struct {
			Dir string `usage:"directory"`
		}{}), []string{"field Dir", `the tag "usage" and no flag`}},
		"unexported with usage": {cell.Config(struct {
			dir string `usage:"directory"`
		}{}), []string{"field dir", `the tag "usage" and no flag`}},
		"embedded pointer":            {cell.Config(struct{ *common }{}), []string{"field common", "the flag of graph_test.common.Depth in it is not read", "embed the struct, by value"}},
		"struct that is not embedded": {cell.Config(struct{ Common common }{}), []string{"field Common", "graph_test.common.Depth"}},
		"list of structs":             {cell.Config(struct{ All map[string][]*checked }{}), []string{"field All", "graph_test.common.Depth"}},
		"pointer to a setting": {cell.Config(struct {
			Interval *time.Duration `flag:"interval"`
		}{}), []string{"field Interval", "cannot set a *time.Duration from a flag"}},
		"channel": {cell.Config(struct {
			Done chan int `flag:"done"`
		}{}), []string{"field Done", "cannot set a chan int from a flag"}},
		"one flag twice in a struct": {cell.Config(struct {
			A string `flag:"dir"`
			B string `flag:"dir"`
		}{}), []string{"field B", "the flag --dir is already defined by"}},
		"pointer to a configuration": {cell.Config(&common{}), []string{"expected a struct, got *graph_test.common; pass the struct itself"}},
		"Validate with another type": {cell.Config(validatesOtherwise{}), []string{"the method Validate is", "expected func() error"}},
		"Validate of several structs": {cell.Config(struct {
			checked
			alsoChecked
		}{}), []string{"each of checked and alsoChecked has a method Validate", "expected one that calls them"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newGraph(t, cell.Module("m", "", tt.config))
			wantError(t, err, append(tt.want, "tags_test.go:", `module "m"`)...)
		})
	}
}

// A type that holds itself, tags of others and what cannot be meant for settings are no concern.
func TestOtherFieldsOfAConfigurationAreLeftAlone(t *testing.T) {
	type list struct {
		Next *list
	}
	type config struct {
		common
		Dir   string `flag:"dir" json:"dir,omitempty" yaml:"dir"`
		List  list   `json:"list"`
		After func() error
		rest  []string
	}
	got, err := configure(t, config{rest: []string{"kept"}}, []string{"--dir=/a", "--depth=3"}, nil)
	if err != nil || got.Dir != "/a" || got.Depth != 3 || len(got.rest) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A duration says its unit, in flags as everywhere; only zero has none.
func TestDurationsWithoutUnitAreRefused(t *testing.T) {
	type config struct {
		Interval time.Duration `flag:"interval"`
	}
	for _, text := range []string{"30", "1.5", "", "1 s", "1d"} {
		_, err := configure(t, config{}, nil, map[string]string{"TEST_INTERVAL": text})
		wantError(t, err, "TEST_INTERVAL", "expected a duration such as 500ms, 30s or 5m")
	}
	if got, err := configure(t, config{time.Second}, nil, map[string]string{"TEST_INTERVAL": "0"}); err != nil || got.Interval != 0 {
		t.Errorf("0: %v, %v", got, err)
	}
}

// configOf is cell.Config for a struct whose type is made at run time.
func configOf(defaults reflect.Value) cell.Cell {
	return &description.Config{Defaults: defaults, At: description.Caller()}
}
