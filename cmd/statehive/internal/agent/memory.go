package agent

import (
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// documentsMemory records, per boot and network namespace, that rows of documents were in
// force. An agent that finds no documents at its start then asks before it removes what
// they declared.
type documentsMemory struct {
	records *ownership.Records[struct{}]
}

// inForce is the key of the only record.
const inForce = "in-force"

func newMemory(store *ownership.Store) (file.Memory, error) {
	records, err := ownership.NewRecords[struct{}](store, "documents")
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
