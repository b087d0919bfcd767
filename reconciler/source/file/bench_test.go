package file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

const manyRoutes = 100_000

// manyDocuments is a file of routes, about 7 MB.
func manyDocuments() []byte {
	var b bytes.Buffer
	for i := range manyRoutes {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "kind: route\ndestination: 10.%d.%d.%d/32\ngateway: 192.0.2.1\nmetric: 5\n", i>>16, i>>8&0xff, i&0xff)
	}
	return b.Bytes()
}

// BenchmarkParse100kDocuments reports rows per second, and what is kept of each document.
func BenchmarkParse100kDocuments(b *testing.B) {
	p, data := newFixture(b).parser(b), manyDocuments()
	kept := keptPerRow(p, data)
	b.ReportAllocs()
	for b.Loop() {
		if c := p.parse("f.yaml", data); len(c.docs) != manyRoutes {
			b.Fatal(text(c.problems))
		}
	}
	b.ReportMetric(manyRoutes*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(kept, "kept-B/row")
}

func keptPerRow(p *parser, data []byte) float64 {
	before := heap()
	c := p.parse("f.yaml", data)
	kept := heap() - before
	runtime.KeepAlive(c)
	return float64(kept) / manyRoutes
}

// BenchmarkTakeOver100kDocuments is all from the file to the table.
func BenchmarkTakeOver100kDocuments(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), manyDocuments(), 0o600); err != nil {
		b.Fatal(err)
	}
	var kept float64
	for b.Loop() {
		b.StopTimer()
		f := newFixture(b)
		c := f.config(b, dir)
		c.Logger = nil
		s, err := New(c)
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		b.StartTimer()
		for f.routes.Len(f.db.ReadTxn()) != manyRoutes {
			if _, err := s.reload(b.Context(), unwatched{}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		kept = float64(heap()-before) / manyRoutes
		runtime.KeepAlive(s)
		b.StartTimer()
	}
	b.ReportMetric(manyRoutes*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(kept, "kept-B/row")
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkRead100kDocumentsIn1000Files is what a validation costs, from the directory on.
func BenchmarkRead100kDocumentsIn1000Files(b *testing.B) {
	const files, each = 1000, manyRoutes / 1000
	dir := b.TempDir()
	documents := bytes.SplitAfter(manyDocuments(), []byte("---\n"))
	for i := range files {
		data := bytes.Join(documents[i*each:(i+1)*each], nil)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	kinds := newFixture(b).kinds(b)
	b.ReportAllocs()
	for b.Loop() {
		loaded, err := Load(dir)
		if err != nil {
			b.Fatal(err)
		}
		contents, err := Read(kinds, loaded)
		if err != nil || len(contents.Rows) != manyRoutes || len(contents.Problems) > 0 {
			b.Fatal(len(contents.Rows), contents.Problems, err)
		}
	}
	b.ReportMetric(manyRoutes*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
