package file

import (
	"os"
	"testing"
)

func TestAFileThatWentBeforeItWasReadIsNotShown(t *testing.T) {
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(_ *testing.T, h *harness) {
		h.settle()
		h.remove("a.yaml")
		h.settle()
		want := []string{". error 0/0: .: the directory no longer has any documents; " + staying(1), "a.yaml ok 1/1"}
		h.wantDocuments(want...)
		f := h.open("b.yaml", os.O_CREATE|os.O_WRONLY)
		h.look()
		h.wantDocuments(want...)
		h.remove("b.yaml")
		h.must(f.Close())
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantDocuments(want...)
	})
}
