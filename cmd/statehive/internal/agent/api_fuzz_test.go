package agent

import (
	"context"
	"net/http"
	"net/url"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// maxAllocated is what a request may cost. Each endpoint's answer is small here; bodies are at most 64 kB.
const maxAllocated = 64 << 20

// allocated returns how many bytes were allocated since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// FuzzRequests finds no request that panics, has no answer, changes something although it is refused, or takes much memory.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "/v1/reconcilers/lamps/limits?rate=5&burst=1&round=10", ""},
		{"POST", "/v1/reconcilers/lamps/pause?all=1&for=1h", ""},
		{"POST", "/v1/reconcilers/lamps/resume?key=desk", ""},
		{"POST", "/v1/reconcilers/lamps/trigger?where=name%3Ddesk", ""},
		{"POST", "/v1/reconcilers/lamps/forget?key=desk", ""},
		{"POST", "/v1/reconcilers/lamps/approve?plan=a-1", ""},
		{"GET", "/v1/reconcilers/lamps/explain?key=desk", ""},
		{"POST", "/v1/documents/approve", ""},
		{"POST", "/v1/plan", `{"files":[{"path":"a.yaml","data":"a2luZDogbGFtcApuYW1lOiBhCg=="}]}`},
		{"GET", "/v1/tables/options?from=a&to=b&limit=1&reverse", ""},
		{"GET", "/v1/tables/lamps?watch=true&status=done", ""},
		{"PUT", "/v1/tables/options/rows?revision=1", `[{"Name":"a","Value":3}]`},
		{"DELETE", "/v1/tables/options/rows?key=a&revision=1", ""},
		{"GET", "/v1/tables?memory", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	b := newAPIBed(f)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if !strings.HasPrefix(target, "/") || len(body) > 1<<16 {
			t.Skip()
		}
		before, memory := b.state(t), allocated()
		// What is followed goes on until its client leaves.
		status, answer := b.sendFor(t, 20*time.Millisecond, method, target, body)
		if used := allocated() - memory; used > maxAllocated {
			t.Errorf("%d bytes were allocated", used)
		}
		left := strings.Contains(answer, context.DeadlineExceeded.Error()) // the client, on a busy machine
		if status >= 500 && status != http.StatusServiceUnavailable && !left {
			t.Errorf("status %d: %s", status, answer)
		}
		if now := b.state(t); status >= 400 && now != before {
			t.Errorf("status %d, but %q is now %q", status, before, now)
		}
		for o := range b.options.All(b.db.ReadTxn()) {
			if status, answer := b.send(t, http.MethodDelete, "/v1/tables/options/rows?key="+url.QueryEscape(o.Name), ""); status >= 300 {
				t.Errorf("delete %q: %d %s", o.Name, status, answer)
			}
		}
	})
}
