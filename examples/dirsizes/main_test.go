package main

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/hivetest"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A missing type or a cycle fails this test, with the path that leads to it. Nothing is constructed.
func TestCellsFitTogether(t *testing.T) { hivetest.Validate(t, cells()...) }

func TestScripts(t *testing.T) {
	hivetest.Scripts{Dir: "testdata", Name: "dirsizes", Cells: cells()}.Run(t)
}

func TestDirectoriesAreMeasuredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hivetest.New(t, map[string]string{"TEST_DIRS": "testdata"}, scanCell())
		hivetest.Start(t, h)
		hivetest.WaitReady(t, h)
		synctest.Wait()
		err := h.Invoke(func(db *statedb.DB, dirs *statedb.Table[Dir]) {
			if row, _, found := dirs.Get(db.ReadTxn(), byPath.Query("testdata")); !found || row.Files == 0 {
				t.Errorf("got %+v", row)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestJudgeIsDegradedByADirectoryThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := hivetest.NewJobs(t)
		dirs, err := statedb.NewTable(jobs.DB, statedb.Schema[Dir]{Name: "dirs", Primary: byPath})
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(quotaConfig{Quota: 10}, statedb.ReadOnly(dirs), jobs, jobs.Health, hivetest.Logger(t)); err != nil {
			t.Fatal(err)
		}
		for bytes, want := range map[int64]health.Level{10: health.OK, 11: health.Degraded} {
			err := jobs.DB.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := dirs.Insert(txn, Dir{Path: "/a", Bytes: bytes})
				return err
			}, dirs)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s, _ := jobs.Health.Of(); s.Level != want {
				t.Errorf("with %d bytes: %v %s, want %v", bytes, s.Level, s.Message, want)
			}
		}
	})
}
