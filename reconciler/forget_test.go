package reconciler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

func TestForgottenDeleteIsNotTriedAgain(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.will(failing("a"))
		w.delete("a")
		w.target.log()
		w.check(w.r.Forget(t.Context(), "a"))
		w.pass(time.Hour)
		w.wantLog()
		w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
		w.equal("deleting", 0, w.deleting())
		w.equal("health", "ok: reconciled", w.health.last())
		// What is left of it is an orphan, which a full pass removes.
		w.target.will(nil)
		w.fullPass()
		w.wantTarget(map[string]int{"b": 1})
	})
}

func TestForgottenDeleteThatIsRunningIsItsLast(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, errBoom
		})
		w.delete("a")
		w.check(w.r.Forget(t.Context(), "a"))
		w.target.log()
		w.pass(time.Second + 10*time.Millisecond) // it has failed, and its backoff would not be over
		w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
		w.pass(time.Hour)
		w.wantLog()
	})
}

func TestForgottenRowThatComesBackIsApplied(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(failing("a"))
		w.delete("a")
		w.check(w.r.Forget(t.Context(), "a"))
		w.target.will(nil)
		w.put(row{ID: "a", Want: 2})
		w.wantTarget(map[string]int{"a": 2})
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

func TestOnlyDeletesCanBeForgotten(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "there"}, row{ID: "theirs"})
		w.target.will(failing("them"))
		w.put(row{ID: "them"})
		w.delete("them")
		for key, want := range map[string]string{
			"there": `table rows: key "there": the row is in the table, and only a delete can be forgotten`,
			"thin":  `rows: key "thin": no such row; similar keys: theirs, there, them`,
		} {
			if err := w.r.Forget(t.Context(), key); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		w.equal("still there", true, slices.ContainsFunc(w.notDoneRows(), func(n reconciler.NotDone) bool { return n.Key == "them" }))
	})
}
