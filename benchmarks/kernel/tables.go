package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rulesOfTable is how many rules each of many tables of nftables has.
const rulesOfTable = 100

// tablesDocuments are tables with so many rules in all, which accept packets by port.
func tablesDocuments(n int) string {
	var b strings.Builder
	for table := range tablesOf(n) {
		fmt.Fprintf(&b, "---\nkind: nft\nname: t%d\nchains:\n- name: in\n  hook: input\n  priority: filter\n  rules:\n", table)
		for rule := range rulesOfTable {
			fmt.Fprintf(&b, "  - match: {proto: tcp, dport: %d}\n    accept: true\n", 1000+rule)
		}
	}
	return b.String()
}

func tablesOf(n int) int { return max(n/rulesOfTable, 1) }

// tablesScript is the same for nft -f.
func tablesScript(n int) string {
	var b strings.Builder
	for table := range tablesOf(n) {
		fmt.Fprintf(&b, "table inet t%d {\n\tchain in {\n\t\ttype filter hook input priority filter; policy accept;\n", table)
		for rule := range rulesOfTable {
			fmt.Fprintf(&b, "\t\ttcp dport %d accept\n", 1000+rule)
		}
		b.WriteString("\t}\n}\n")
	}
	return b.String()
}

func tablesRemoval(n int) string {
	var b strings.Builder
	for table := range tablesOf(n) {
		fmt.Fprintf(&b, "delete table inet t%d\n", table)
	}
	return b.String()
}

// setDocument is a table with a set of n addresses, no two of which are neighbors.
func setDocument(n int) string {
	var b strings.Builder
	b.WriteString("---\nkind: nft\nname: t0\nsets:\n- name: hosts\n  type: ipv4_addr\n  elements:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - %v\n", element(i))
	}
	b.WriteString("chains:\n- name: in\n  hook: input\n  priority: filter\n  rules:\n  - match: {saddr: \"@hosts\"}\n    drop: true\n")
	return b.String()
}

func element(i int) string { return addr4(12<<24 + 2*uint32(i)).String() }

func setScript(n int) string {
	var b strings.Builder
	b.WriteString("table inet t0 {\n\tset hosts {\n\t\ttype ipv4_addr\n\t\telements = {\n")
	for i := range n {
		fmt.Fprintf(&b, "\t\t\t%v,\n", element(i))
	}
	b.WriteString("\t\t}\n\t}\n\tchain in {\n\t\ttype filter hook input priority filter; policy accept;\n\t\tip saddr @hosts drop\n\t}\n}\n")
	return b.String()
}

func tablesOfAgent(ctx context.Context, t *trial) error {
	m := many{
		table: "nft-tables", n: tablesOf(t.Objects), document: tablesDocuments(t.Objects),
		inKernel: countTables, in: tablesAdded, out: tablesRemoved,
	}
	return t.withAgent(ctx, "", m, func(*agent) error { return nil })
}

func setOfAgent(ctx context.Context, t *trial) error {
	m := many{table: "nft-tables", n: 1, document: setDocument(t.Objects), inKernel: countTables, in: setAdded}
	return t.withAgent(ctx, "", m, func(*agent) error { return nil })
}

func tablesByNFT(ctx context.Context, t *trial) error {
	for _, step := range []struct{ figure, script string }{{tablesAdded, tablesScript(t.Objects)}, {tablesRemoved, tablesRemoval(t.Objects)}} {
		err := t.phase(ctx, step.figure, theirs, func(ctx context.Context) (float64, error) { return t.nft(ctx, step.script) })
		if err != nil {
			return err
		}
	}
	return nil
}

func setByNFT(ctx context.Context, t *trial) error {
	return t.phase(ctx, setAdded, theirs, func(ctx context.Context) (float64, error) { return t.nft(ctx, setScript(t.Objects)) })
}

// nft lets nft -f carry out a script, and returns how many seconds it took.
func (t *trial) nft(ctx context.Context, script string) (float64, error) {
	path := filepath.Join(t.dir, "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", path)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, fmt.Errorf("nft -f: %w: %.500s", err, out)
	}
	return took, nil
}

// countTables counts all tables: the namespace has no others.
func countTables() (int, error) {
	out, err := exec.Command("nft", "list", "tables").Output() //nolint:noctx // it does not wait for anything
	if err != nil {
		return 0, fmt.Errorf("nft list tables: %w", err)
	}
	return strings.Count(string(out), "table "), nil
}
