package trie_test

import (
	"testing"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/engine/enginetest"
	"github.com/statehive/statehive/statedb/internal/engine/trie"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func() engine.Tree[int] { return trie.New[int]() })
}
