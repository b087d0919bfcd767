// Package enginetest is what every engine has to pass: [Run] compares an engine
// with a sorted map, and holds it to its word about watches.
//
// It is meant for tests only. Failures go to the testing.T given; nothing is
// kept between runs.
package enginetest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// Run runs the suite. newTree returns an empty tree, a new one at each call.
func Run(t *testing.T, newTree func() engine.Tree[int]) {
	t.Run("ReadsLikeASortedMap", func(t *testing.T) { testModel(t, newTree) })
	t.Run("LongKeysAreFound", func(t *testing.T) { testLongKeys(t, newTree) })
	t.Run("NodesGrowAndShrink", func(t *testing.T) { testFanOut(t, newTree) })
	t.Run("SequencesStandStillWhileTheirTransactionWrites", func(t *testing.T) { testIterateWhileWriting(t, newTree) })
	t.Run("ForksAreIndependent", func(t *testing.T) { testForks(t, newTree) })
	t.Run("SequencesKeepTheirMomentOfATransaction", func(t *testing.T) { testKeptSequences(t, newTree) })
	t.Run("OldVersionsAreReadWhileNewOnesAreMade", func(t *testing.T) { testParallelReaders(t, newTree) })
	t.Run("WatchesNeverMiss", func(t *testing.T) { testWatches(t, newTree) })
	t.Run("WatchesNeverMissInHugeTransactions", func(t *testing.T) { testHugeTransactions(t, newTree) })
	t.Run("LateWatchesOnOldVersionsAreClosed", func(t *testing.T) { testLateWatches(t, newTree) })
	t.Run("WatchesOfEveryMomentOfATransactionClose", func(t *testing.T) { testWatchesOfEveryMoment(t, newTree) })
	t.Run("WatchesOfLongKeysClose", func(t *testing.T) { testWatchesOfLongKeys(t, newTree) })
	t.Run("WatchesTakenDuringCommitsClose", func(t *testing.T) { testWatchesTakenDuringCommits(t, newTree) })
	t.Run("DroppedTransactionsWakeNobody", func(t *testing.T) { testDropped(t, newTree) })
}

// model is what a tree should hold.
type model map[string]int

func (m model) sorted() sortedKeys { return slices.Sorted(maps.Keys(m)) }

// sortedKeys are what each query should yield; the results are not to be changed.
type sortedKeys []string

func (s sortedKeys) from(key string) []string {
	i, _ := slices.BinarySearch(s, key)
	return s[i:]
}

func (s sortedKeys) withPrefix(prefix string) []string {
	keys := s.from(prefix)
	for i, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			return keys[:i]
		}
	}
	return keys
}

func (s sortedKeys) belowReverse(key string) []string {
	i, _ := slices.BinarySearch(s, key)
	return reversed(s[:i])
}

func reversed(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Reverse(keys)
	return keys
}

// around returns the keys and some between them.
func (s sortedKeys) around() []string {
	probes := slices.Clone(s)
	for _, key := range s {
		probes = append(probes, key+"\x00")
		if key != "" {
			probes = append(probes, key[:len(key)-1]+string([]byte{key[len(key)-1] - 1}))
		}
	}
	return probes
}

// differs compares a sequence with the keys that the model has, in order.
func (m model) differs(seq iter.Seq2[[]byte, int], want []string) error {
	i := 0
	for key, value := range seq {
		if i == len(want) {
			return fmt.Errorf("yielded %s after all %d keys", brief(string(key)), len(want))
		}
		if !bytes.Equal(key, []byte(want[i])) || value != m[want[i]] {
			return fmt.Errorf("yielded %s=%d at place %d, expected %s=%d", brief(string(key)), value, i, brief(want[i]), m[want[i]])
		}
		i++
	}
	if i < len(want) {
		return fmt.Errorf("yielded %d keys, expected %d: %s is missing", i, len(want), brief(want[i]))
	}
	return nil
}

// check compares everything that r answers with the model, asking at and
// between the keys of the model and at the probes.
func (m model) check(r engine.Reader[int], probes ...string) error {
	if r.Len() != len(m) {
		return fmt.Errorf("Len is %d, expected %d", r.Len(), len(m))
	}
	sorted := m.sorted()
	if err := m.differs(r.Prefix(nil), sorted); err != nil {
		return fmt.Errorf("Prefix(nil) %w", err)
	}
	for _, key := range slices.Concat(sorted.around(), probes) {
		value, ok := r.Get([]byte(key))
		if want, exists := m[key]; ok != exists || value != want {
			return fmt.Errorf("Get(%s) is %d, %t; expected %d, %t", brief(key), value, ok, want, exists)
		}
		if err := m.differs(r.Prefix([]byte(key)), sorted.withPrefix(key)); err != nil {
			return fmt.Errorf("Prefix(%s) %w", brief(key), err)
		}
		if err := m.differs(r.LowerBound([]byte(key)), sorted.from(key)); err != nil {
			return fmt.Errorf("LowerBound(%s) %w", brief(key), err)
		}
		if err := m.checkReverse(r, sorted, key); err != nil {
			return err
		}
	}
	return nil
}

func (m model) checkReverse(r engine.Reader[int], sorted sortedKeys, key string) error {
	if err := m.differs(r.PrefixReverse([]byte(key)), reversed(sorted.withPrefix(key))); err != nil {
		return fmt.Errorf("PrefixReverse(%s) %w", brief(key), err)
	}
	if err := m.differs(r.BelowReverse([]byte(key)), sorted.belowReverse(key)); err != nil {
		return fmt.Errorf("BelowReverse(%s) %w", brief(key), err)
	}
	largest := sorted.belowReverse(key)
	if err := m.differs(one(r.Below([]byte(key))), largest[:min(1, len(largest))]); err != nil {
		return fmt.Errorf("Below(%s) %w", brief(key), err)
	}
	return nil
}

// one is the sequence of what was found, if it was.
func one(key []byte, value int, ok bool) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		if ok {
			yield(key, value)
		}
	}
}

func brief(key string) string {
	if len(key) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", key[:40], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// load returns a tree that holds the model.
func load(newTree func() engine.Tree[int], m model) engine.Tree[int] {
	txn := newTree().Txn()
	for key, value := range m {
		txn.Insert([]byte(key), value)
	}
	tree := txn.Commit()
	txn.Notify()
	return tree
}
