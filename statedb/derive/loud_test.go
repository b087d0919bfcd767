package derive_test

import (
	"bytes"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

// book is a log whose lines a test looks at.
type book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines returns what was logged since the last call.
func (b *book) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return strings.Split(strings.TrimSuffix(b.buf.String(), "\n"), "\n")
}

func (b *book) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "stack" && strings.Contains(a.Value.String(), "derive_test") {
			return slog.Attr{}
		}
		return a
	}}))
}

// clinic notes what health is told.
type clinic struct{ told []string }

func (c *clinic) OK(message string)      { c.told = append(c.told, "OK: "+message) }
func (c *clinic) Stopped(message string) { c.told = append(c.told, "stopped: "+message) }

func (c *clinic) Degraded(message string, err error) {
	c.told = append(c.told, fmt.Sprintf("degraded: %s: %v", message, err))
}

func (d *derivation) wantTold(told *[]string, want ...string) {
	d.t.Helper()
	if diff := gocmp.Diff(want, *told); diff != "" {
		d.t.Errorf("other things were told than expected (-want +got):\n%s", diff)
	}
	*told = nil
}

func (d *derivation) wantStats(want derive.Stats) {
	d.t.Helper()
	if got := d.derived.Stats(); got != want {
		d.t.Errorf("the stats are %+v, expected %+v", got, want)
	}
}

func TestAFailingRowIsLoggedCountedAndShownByHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		var log book
		var health clinic
		d.spec.Logger, d.spec.Health = log.logger(), &health
		d.spec.MinBackoff, d.spec.MaxBackoff = time.Minute, time.Minute
		d.attempts("a", alwaysAborted)
		d.start()
		failed := `table joined, row "a": aborted`
		d.wantTold(&health.told, "degraded: rows in error: 1: "+failed)
		d.wantStats(derive.Stats{Failures: 1, Failing: 1})
		lines := log.lines()
		d.wantTold(&lines, `level=WARN msg="derived row failed" output=joined error="table joined, row \"a\": aborted"`)

		d.attempts("a", func() error { panic("out of cheese") })
		d.put(d.right, item{ID: "a", Group: "a", Number: 2})
		d.wantTold(&health.told, `degraded: rows in error: 1: table joined, row "a": panic: out of cheese`)
		d.wantStats(derive.Stats{Failures: 2, Failing: 1})
		lines = log.lines()
		d.wantTold(&lines, `level=ERROR msg="derived row failed" output=joined error="table joined, row \"a\": panic: out of cheese"`)

		d.hook = nil
		d.sleep(2 * time.Minute)
		d.wantTold(&health.told, "OK: derived")
		d.wantStats(derive.Stats{Failures: 2})
		d.put(d.right, item{ID: "a", Group: "a", Number: 3})
		d.wantTold(&health.told) // nothing is new
		d.stop()
		d.wantTold(&health.told, "stopped: stopped")
		lines = log.lines()
		d.wantTold(&lines, "")
	})
}

func TestHealthTellsOfTheInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		var health clinic
		d.spec.Health = &health
		source := d.register(d.left, "files")
		d.start()
		d.wantTold(&health.told, "degraded: waiting for the first listing of the inputs: <nil>")
		d.write(source.Initialized)
		d.wantTold(&health.told, "OK: derived")
		d.write(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "a.yaml is broken") })
		d.wantTold(&health.told, "OK: derived from incomplete inputs: table left, source files: a.yaml is broken")
		d.stop()
	})
}

func TestOneCauseDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, numbered(make([]int, 2_000)...)...)
		var log book
		d.spec.Logger = log.logger()
		d.spec.MinBackoff, d.spec.MaxBackoff = time.Hour, time.Hour
		d.hook = func(statedb.ReadTxn, string) error { return errAborted }
		d.start()
		if n := len(log.lines()); n != 50 {
			t.Errorf("%d lines were logged, expected 50", n)
		}
		d.wantStats(derive.Stats{Failures: 2_000, Failing: 2_000})
		d.sleep(time.Minute)
		if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "leftOut=1950") {
			t.Errorf("a minute later %q was logged, expected a count", lines)
		}
		d.stop()
	})
}

func TestWithoutALoggerTheDefaultOneIsTold(t *testing.T) {
	var log book
	defer stdlog.SetFlags(stdlog.Flags())
	defer stdlog.SetOutput(stdlog.Writer())
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(log.logger()) // package log follows
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		d.spec.Logger = nil
		d.attempts("a", alwaysAborted)
		d.start()
		d.stop()
	})
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "aborted") {
		t.Errorf("%q was logged", lines)
	}
}

func TestAPanicOfTheMappingIsLoggedAndShownByHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		var log book
		var health clinic
		d.spec.Logger, d.spec.Health = log.logger(), &health
		d.spec.Inputs[1] = derive.From(statedb.ReadOnly(d.right), func(statedb.ReadTxn, item, func(string)) { panic("out of cheese") })
		d.start()
		d.wantTold(&health.told, `degraded: the rows affected by an input row could not be determined: table right, row "a": panic: out of cheese`)
		lines := log.lines()
		d.wantTold(&lines, `level=ERROR msg="the rows affected by an input row could not be determined" output=joined error="table right, row \"a\": panic: out of cheese"`)
		d.wantStats(derive.Stats{Failures: 1})
		d.stop()
	})
}

// TestADerivationThatHasEndedMakesRoomForAnother: the table of an input was dropped, and
// there is another one of its name.
func TestADerivationThatHasEndedMakesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		var health clinic
		d.spec.Health = &health
		d.start()
		health.told = nil
		if err := d.db.Drop(t.Context(), d.right); err != nil {
			t.Fatal(err)
		}
		d.end(statedb.ErrDropped)
		const reason = "derivation has ended: table right: table was dropped"
		d.wantState(true, reason)
		d.wantTold(&health.told, "degraded: "+reason)
		if err := d.derived.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the derivation has ended") {
			t.Errorf("running it again returned %v", err)
		}

		d.right = newTable(t, d.db, statedb.Schema[item]{Name: "right", Primary: byID, Secondary: []statedb.Indexer[item]{byGroup}})
		d.put(d.right, item{ID: "b", Group: "b", Number: 5})
		d.spec.Inputs[1] = derive.From(statedb.ReadOnly(d.right), d.leftsOf)
		d.start()
		d.want("b=5")
		d.wantState(true, "")
		d.stop()
		_, err := derive.New(t.Context(), d.spec)
		wantError(t, err, statedb.ErrSourceExists) // that one has not ended: it can run again
	})
}

func TestARefusedRowIsNamedWhateverRefusesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t, func(s *statedb.Schema[joined]) {
			s.Validators = append(s.Validators, func(statedb.ReadTxn, statedb.Proposal[joined]) error { panic("out of cheese") })
		})
		d.put(d.left, item{ID: "a"})
		d.put(d.right, item{ID: "1"})
		var told error
		d.spec.OnError = func(err error) { told = err }
		d.start()
		var row *statedb.RowError
		if !errors.As(told, &row) || row.Table != "joined" || row.Key != "a" {
			t.Errorf("told of %v, which does not name the row", told)
		}
		d.stop()
	})
}
