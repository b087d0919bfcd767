package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// documentFiles is how many files the documents are in that are validated.
const documentFiles = 1_000

// validate measures the command that checks documents without an agent.
func validate(ctx context.Context, t *trial) error {
	dir := filepath.Join(t.dir, "many")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	all := routes(t.Routes)
	for i := range documentFiles {
		part := all[len(all)*i/documentFiles : len(all)*(i+1)/documentFiles]
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(routeDocuments(part)), 0o600); err != nil {
			return err
		}
	}
	return t.phase(ctx, validated, ours, func(ctx context.Context) (float64, error) {
		return command(ctx, t.Agent, "validate", dir)
	})
}

// plan measures what documents would change that are in force, as a running agent says.
func (t *trial) plan(ctx context.Context, a *agent) error {
	return t.phase(ctx, planned, ours, func(ctx context.Context) (float64, error) {
		return command(ctx, a.program, "plan", "-f", a.documents(), "--socket", filepath.Join(a.dir, "socket"))
	})
}

// command returns how many seconds a command takes, which is to end with success.
func command(ctx context.Context, program string, args ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", args[0], errors.Join(ctx.Err(), err), bytes.TrimSpace(out.Bytes()[:min(out.Len(), 1000)]))
	}
	return took.Seconds(), err
}
