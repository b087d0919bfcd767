package e2e

// The go command knows by this import that results are not to be taken from its
// cache when the program has changed.
import _ "github.com/statehive/statehive/cmd/statehive/internal/agent"
