# Everything a developer needs; `make` alone lists it. Nothing here needs root: caches and the module cache lie below HOME, and
# all that is built lies in bin/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The race detector alone needs C (see the target race).
export CGO_ENABLED = 0

MODULES := $(patsubst %/,%,$(dir $(wildcard go.mod */go.mod)))
GO_FILES = $$(find . -path './.*' -prune -o -path ./bin -prune -o -path ./go -prune -o -name '*.go' -print)
TOOLS := bin/tools/.built

# The parts of `make bench`: which benchmarks, how often, and an earlier bin/bench.txt to compare with.
BENCH ?= .
COUNT ?= 1
OLD ?=

# How much `make bench-compare` does: rows in a run, and runs.
ROWS ?= 200000
RUNS ?= 5

# What `make bench-versions` compares this tree with, and which part of its table, or of that of `make rowcost`, is measured: a regexp.
BASE ?= 066e8e7
ONLY ?=

# How often `make torture` kills the agent, and how many objects of each kind there are: 100 routes, 20 of most others, times SCALE.
# STATEHIVE_E2E_SEED=N repeats the choices of a run.
KILLS ?= 200
SCALE ?= 10

# How long `make attack` attacks the agent.
ATTACK ?= 60s

# More flags for `make bench-kernel`, such as '-routes 500 -only ab'; `go -C benchmarks run ./kernel -h` lists them.
KERNEL ?=

# How long `make fuzz` tries each target, such as 30s; empty divides five minutes evenly.
FUZZTIME ?=

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/statehive
	go build -trimpath -o bin/statehive ./cmd/statehive

.PHONY: run
run: build ## Run the agent on examples/node in a sandbox, for trying it; stop with Ctrl-C
	@exec bin/statehive agent --sandbox --config-dir examples/node --allow-writable-config # a clone may be anybody's

.PHONY: test
test: ## Run all tests, those in network namespaces included
	umask 022; go test -timeout 9m ./... # documents that others could write to are refused

.PHONY: race
race: export CGO_ENABLED = 1
race: ## Run all tests under the race detector (needs a C compiler)
	umask 022; go test -race -timeout 20m ./...

.PHONY: lint
lint: $(TOOLS) ## Check formatting, vet, linters, and that each go.mod is tidy
	@if ! diff=$$(bin/tools/gofumpt -d $(GO_FILES)) || [ -n "$$diff" ]; then \
		echo "$$diff"; echo 'lint: not formatted: run `make fmt`' >&2; exit 1; fi
	@for module in $(MODULES); do \
		echo "lint: module $$module"; \
		go -C $$module mod tidy -diff; \
		if [ -z "$$(go -C $$module list ./... 2>/dev/null)" ]; then continue; fi; \
		go -C $$module vet ./...; \
		(cd $$module && $(CURDIR)/bin/tools/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); \
	done

.PHONY: fmt
fmt: $(TOOLS) ## Format all Go files
	bin/tools/gofumpt -w $(GO_FILES)

.PHONY: bench
bench: $(TOOLS) ## Run benchmarks into bin/bench.txt; BENCH=regexp COUNT=6 OLD=file to compare with
	@for module in $(MODULES); do \
		if [ -z "$$(go -C $$module list ./... 2>/dev/null)" ]; then continue; fi; \
		go -C $$module test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...; \
	done | tee bin/bench.txt
	@if [ -n '$(OLD)' ]; then bin/tools/benchstat '$(OLD)' bin/bench.txt; fi

.PHONY: bench-compare
bench-compare: ## Compare with controller-runtime, and tables with go-memdb, into bin/bench-compare.md; ROWS=1000000 RUNS=10
	@mkdir -p bin
	go -C benchmarks vet ./...
	go -C benchmarks test ./...
	{ go -C benchmarks run ./compare -rows '$(ROWS)' -runs '$(RUNS)'; echo; \
		go -C benchmarks run ./comparetables -heap '$(ROWS)' -runs '$(RUNS)'; } | tee bin/bench-compare.md

.PHONY: bench-versions
bench-versions: ## Compare tables with those of commit BASE=066e8e7, into bin/bench-versions.md; RUNS=5 ONLY='get.*by pointer'
	@mkdir -p bin
	go -C benchmarks vet ./versions
	go -C benchmarks vet -tags pointer ./versions
	go -C benchmarks test ./versions
	go -C benchmarks run ./versions -base '$(BASE)' -runs '$(RUNS)' -only '$(ONLY)' | tee bin/bench-versions.md

.PHONY: rowcost
rowcost: ## Measure what one more row type costs in compilation and binary, into bin/rowcost.md; ONLY='table, .*by value'
	@mkdir -p bin
	go -C benchmarks vet ./rowcost
	go -C benchmarks test ./rowcost
	go -C benchmarks run ./rowcost -only '$(ONLY)' | tee bin/rowcost.md

.PHONY: bench-kernel
bench-kernel: RUNS := $(if $(filter command line environment,$(origin RUNS)),$(RUNS),3)
bench-kernel: build ## Measure the agent on a real kernel beside ip -batch, into bin/bench-kernel.md; RUNS=3 KERNEL='-routes 500 -only ab'
	go -C benchmarks vet ./kernel
	go -C benchmarks test ./kernel
	go -C benchmarks run ./kernel -agent '$(CURDIR)/bin/statehive' -runs '$(RUNS)' $(KERNEL) | tee bin/bench-kernel.md

.PHONY: fuzz
fuzz: ## Try new inputs on every fuzz target, five minutes in all; FUZZTIME=30s for each
	@packages=$$(grep -l '^func Fuzz' $$(find . -path './.*' -prune -o -path ./bin -prune -o -path ./go -prune -o -name '*_test.go' -print) | xargs -n 1 dirname | sort -u); \
	listed=$$(go test -tags invariants -list '^Fuzz' $$packages) || { echo "$$listed" >&2; exit 1; }; \
	targets=$$(awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, name[i]; n = 0 }' <<< "$$listed"); \
	count=$$(wc -l <<< "$$targets"); \
	each='$(FUZZTIME)'; each=$${each:-$$((300 / count))s}; \
	number=0; \
	while read -r package target; do \
		number=$$((number + 1)); \
		echo "fuzz: $$number of $$count: $$target in $$package, for $$each"; \
		go test -tags invariants -run '^$$' -fuzz "^$$target\$$" -fuzztime "$$each" -fuzzminimizetime 20x "$$package" < /dev/null; \
	done <<< "$$targets"

.PHONY: simulate
simulate: export CGO_ENABLED = 0
simulate: COUNT := $(if $(filter command line environment,$(origin COUNT)),$(COUNT),10000)
simulate: ## Run the reconciler's simulation with the seeds 1 to COUNT=10000; a failure names its seed
	@go test ./reconciler -count 1 -timeout 0 -v -run '^TestSimulation$$' -simulations '$(COUNT)'

.PHONY: torture
torture: ## Kill the agent KILLS=200 times among objects of all kinds, SCALE=10 times as many as in the tests
	go test ./cmd/statehive/internal/e2e -count 1 -timeout 0 -v -run '^TestAgentKilledAmongManyObjects' -args -kills '$(KILLS)' -kill-scale '$(SCALE)'

.PHONY: attack
attack: ## Attack an agent for ATTACK=60s, and show what it goes on answering and what it gives back
	go test ./cmd/statehive/internal/e2e -count 1 -timeout 0 -v -run '^TestAgentUnderAttack' -args -attack '$(ATTACK)'

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin

# The tools are pinned in a module of their own, so that importers of Statehive never see what they depend on.
$(TOOLS): tools/go.mod tools/go.sum
	@echo 'building the pinned developer tools: takes some minutes, once'
	go build -C tools -trimpath -ldflags='-s -w' -o ../bin/tools/ tool
	@touch $@
