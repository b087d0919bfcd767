package health_test

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/statedb"
)

// BenchmarkCloseScopes closes 20,000 scopes that have rows.
func BenchmarkCloseScopes(b *testing.B) {
	for name, end := range map[string]func(m health.Health, all []health.Health){
		"one-by-one": func(_ health.Health, all []health.Health) {
			for _, h := range all {
				h.Close()
			}
		},
		"all-at-once": func(m health.Health, _ []health.Health) { m.Close() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r, err := health.NewRegistry(statedb.New(), slog.New(slog.DiscardHandler))
				if err != nil {
					b.Fatal(err)
				}
				m, err := r.Scope("m")
				if err != nil {
					b.Fatal(err)
				}
				all := make([]health.Health, 20_000)
				for i := range all {
					if all[i], err = m.NewScope(strconv.Itoa(i)); err != nil {
						b.Fatal(err)
					}
					all[i].OK("fine")
				}
				b.StartTimer()
				end(m, all)
			}
		})
	}
}
