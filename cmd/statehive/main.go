// Command statehive keeps a machine in the state that documents declare.
package main

import (
	"context"
	"os"

	"github.com/statehive/statehive/cmd/statehive/internal/agent"
)

func main() {
	os.Exit(agent.Main(context.Background()))
}
