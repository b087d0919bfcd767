package reconcilercell

import (
	"fmt"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// Config is what all reconcilers of a hive have in common.
type Config struct {
	// FullInterval is for reconcilers whose own configuration leaves it out.
	FullInterval time.Duration `flag:"full-interval" usage:"time between full passes, which apply every row again and remove orphans: at least 1s (negative: only at start)"`
	// ReadyTries is how often a row that was wanted at the start is tried, if it
	// fails, before readiness no longer waits for it.
	ReadyTries int `flag:"ready-tries" usage:"how often a row of the start is tried before /readyz no longer waits for it"`
	// ChangeLimitRows, ChangeLimitPercent and ChangeLimitWindow are the fields of
	// reconciler.ChangeLimit for the deletes of reconcilers whose own configuration
	// leaves them out. With 100 percent there is no limit.
	ChangeLimitRows    int           `flag:"change-limit-rows" usage:"up to so many rows of a table are deleted within the window whatever part of it they are; more may be held until they are approved"`
	ChangeLimitPercent int           `flag:"change-limit-percent" usage:"deletes beyond those rows are held when they are more than so many percent of the table (100: there is no limit)"`
	ChangeLimitWindow  time.Duration `flag:"change-limit-window" usage:"time within which deletes count together"`
}

func defaultConfig() Config {
	return Config{
		FullInterval: 30 * time.Minute, ReadyTries: 3,
		ChangeLimitRows: 10, ChangeLimitPercent: 30, ChangeLimitWindow: time.Minute,
	}
}

// minFullInterval is the shortest time between full passes that a reconciler takes.
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

// completed returns a reconciler's own configuration with what it leaves out.
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
