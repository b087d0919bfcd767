package reconcilercell

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Config has the settings that the reconcilers of a hive share.
type Config struct {
	// FullInterval is for reconcilers whose own configuration leaves it out.
	FullInterval time.Duration `flag:"full-interval" usage:"time between full passes, which apply every row again and remove orphans: at least 1s (negative: only at start)"`
	// ReadyTries is how often a failing row that was desired at the start is tried
	// before readiness no longer waits for it.
	ReadyTries int `flag:"ready-tries" usage:"how often a row of the start is tried before /readyz no longer waits for it"`
	// ChangeLimitRows, ChangeLimitPercent and ChangeLimitWindow are the fields of
	// reconciler.ChangeLimit for the deletes of reconcilers whose own configuration
	// leaves them out. With 100 percent there is no limit.
	ChangeLimitRows    int           `flag:"change-limit-rows" usage:"deletes within the window that are always allowed, whatever percentage of the table they are; further deletes may be held until they are approved"`
	ChangeLimitPercent int           `flag:"change-limit-percent" usage:"hold further deletes if they are more than this percentage of the table (100: no limit)"`
	ChangeLimitWindow  time.Duration `flag:"change-limit-window" usage:"time over which deletes are counted"`
}

func defaultConfig() Config {
	return Config{
		FullInterval: 30 * time.Minute, ReadyTries: 3,
		ChangeLimitRows: 10, ChangeLimitPercent: 30, ChangeLimitWindow: time.Minute,
	}
}

// minFullInterval is the shortest interval between full passes that a reconciler accepts.
const minFullInterval = time.Second

// Validate returns an error if a field is invalid. Only FullInterval has a default for zero.
func (c Config) Validate() error {
	switch {
	case c.FullInterval > 0 && c.FullInterval < minFullInterval:
		return fmt.Errorf("--full-interval is %v: expected at least %v, or a negative duration for no full passes but the first", c.FullInterval, minFullInterval)
	case c.ReadyTries < 1:
		return fmt.Errorf("--ready-tries is %d: expected 1 or more", c.ReadyTries)
	case c.ChangeLimitRows < 1:
		return fmt.Errorf("--change-limit-rows is %d: expected 1 or more", c.ChangeLimitRows)
	case c.ChangeLimitPercent < 1 || c.ChangeLimitPercent > 100:
		return fmt.Errorf("--change-limit-percent is %d: expected 1 to 100, which is no limit", c.ChangeLimitPercent)
	case c.ChangeLimitWindow <= 0:
		return fmt.Errorf("--change-limit-window is %v: expected a positive duration such as 1m", c.ChangeLimitWindow)
	}
	return nil
}

// completed returns a reconciler's own configuration with the fields filled in that it leaves out.
func (c Config) completed(own reconciler.Config) reconciler.Config {
	setDefault(&own.FullInterval, c.FullInterval)
	setDefault(&own.DeleteLimit.Rows, c.ChangeLimitRows)
	setDefault(&own.DeleteLimit.Percent, float64(c.ChangeLimitPercent))
	setDefault(&own.DeleteLimit.Window, c.ChangeLimitWindow)
	return own
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}
