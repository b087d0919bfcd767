package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/hivetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScripts(t *testing.T) {
	hivetest.Scripts{Dir: "testdata", Name: "symlinks", Cells: cells()}.Run(t)
}
