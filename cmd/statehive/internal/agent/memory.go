package agent

import (
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// documentsMemory records whether documents were in force, across boots and network namespaces, which
// the files that they declared outlive. If they were, an agent that finds no documents when it starts
// asks before it removes what they declared.
type documentsMemory struct {
	records *ownership.Records[struct{}]
}

// inForce is the key of the only record.
const inForce = "in-force"

func newMemory(store *ownership.Store) (file.Memory, error) {
	records, err := ownership.NewLastingRecords[struct{}](store, "documents")
	return documentsMemory{records}, err
}

func (m documentsMemory) InForce() bool {
	_, ok := m.records.Get(inForce)
	return ok
}

func (m documentsMemory) SetInForce(now bool) error {
	if now {
		return m.records.Put(inForce, struct{}{})
	}
	return m.records.Remove(inForce)
}
