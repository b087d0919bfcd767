package process_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/internal/process"
)

func TestAQuestionWithoutAnAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan string)
		began := time.Now()
		if got := process.Ask(func() string { return <-never }); got != "" || time.Since(began) != process.Patience {
			t.Errorf("got %q after %v", got, time.Since(began))
		}
		close(never)
		if got := process.Ask(func() string { return "known" }); got != "known" {
			t.Errorf("got %q", got)
		}
	})
}
