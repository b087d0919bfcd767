package derive

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

type noHealth struct{}

func (noHealth) OK(string)              {}
func (noHealth) Degraded(string, error) {}
func (noHealth) Stopped(string)         {}

const (
	failedMessage   = "derived row failed"
	unmappedMessage = "the rows affected by an input row could not be determined"
)

// report logs and counts a failure, and passes it to OnError.
func (r *running[Out, Key]) report(message string, err error) {
	r.failures.Add(1)
	var panicked *panicError
	attrs := []any{slog.String("output", r.out.Name()), slog.Any("error", err)}
	if errors.As(err, &panicked) {
		r.log.Error(message, append(attrs, slog.String("stack", string(panicked.stack)))...)
	} else {
		r.log.Warn(message, attrs...)
	}
	if r.spec.OnError == nil {
		return
	}
	if err := guarded(func() error { r.spec.OnError(err); return nil }); err != nil {
		r.log.Error("OnError of a derivation panicked", slog.String("output", r.out.Name()), slog.Any("error", err))
	}
}

// reportHealth reports the state to Health if it has changed.
func (r *running[Out, Key]) reportHealth() {
	message, well, err := r.condition()
	text := message
	if err != nil {
		text += ": " + err.Error()
	}
	if text == r.reported {
		return
	}
	r.reported = text
	if well {
		r.spec.Health.OK(message)
	} else {
		r.spec.Health.Degraded(message, err)
	}
}

func (r *running[Out, Key]) condition() (message string, well bool, err error) {
	switch {
	case r.unknown.err != nil:
		return unmappedMessage, false, r.unknown.err
	case len(r.failed.byKey) > 0:
		return fmt.Sprintf("rows in error: %d", len(r.failed.byKey)), false, r.failed.first()
	case !r.inputs.initialized:
		return "waiting for the first listing of the inputs", false, nil
	case len(r.inputs.incomplete) > 0:
		return "derived from incomplete inputs: " + strings.Join(r.inputs.incomplete, "; "), true, nil
	}
	return "derived", true, nil
}
