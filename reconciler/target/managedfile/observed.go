package managedfile

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is what is at the path of a row, no matter who made it.
type Seen struct {
	Path string `json:"path"`
	// Type is "file", or what is there instead, such as "symbolic link".
	Type  string `json:"type"`
	Mode  Mode   `json:"mode"`
	Owner uint32 `json:"owner"`
	Group uint32 `json:"group"`
	Size  int64  `json:"size"`
	// Hash is the SHA-256 of the content in hexadecimal digits. It is empty if this is not a
	// regular file, larger than MaxSize, or cannot be read.
	Hash string `json:"hash,omitempty"`
	// ACL is whether the file has one.
	ACL bool `json:"acl,omitempty"`

	version version
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return Key(s.Path) })

// SeenSchema declares the table "observed-files".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-files", Primary: SeenByKey}
}

func seenOf(key Key, is version) Seen {
	return Seen{string(key), is.kind(), is.Mode, is.Owner, is.Group, is.Size, is.Hash, is.ACL != "", is}
}

// Observed compares rows with what a watcher has seen.
func (t *Target) Observed(seen *statedb.Table[Seen]) reconciler.Observation[File] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[File]] {
			return slices.Values([]statedb.Query[File]{ByKey.Query(Key(s.Path))})
		},
		func(txn statedb.ReadTxn, want File) []reconciler.Change { return t.driftOf(txn, seen, want) })
}

// driftOf returns how a file differs from what the last operation wrote. Anything seen before
// the operation's last look is ignored.
func (t *Target) driftOf(txn statedb.ReadTxn, seen *statedb.Table[Seen], want File) []reconciler.Change {
	is, _, found := seen.Get(txn, SeenByKey.Query(want.Key()))
	last, made := t.versions.last(want.Key())
	switch {
	case made == (version{}) || last != is.version:
		return nil
	case !found:
		return steps.Changes(steps.Field("path", "", want.Path, nil))
	case !is.version.regular():
		return steps.Changes(steps.Field("type", is.Type, "file", nil))
	}
	return steps.Changes(differences(is.version, made))
}
