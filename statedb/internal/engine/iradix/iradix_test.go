package iradix_test

import (
	"testing"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/engine/enginetest"
	"github.com/statehive/statehive/statedb/internal/engine/iradix"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func() engine.Tree[int] { return iradix.New[int]() })
}
