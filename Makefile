# Everything that is done to this repository is a target here; `make help` explains each.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A checkout that another user owns must still build.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

FUZZTIME ?= 5s

# Tools are built once into bin/, under a key of what they are built from: a changed go.mod builds them anew, a
# changed source tree doesn't.
key   = $(shell { go env GOVERSION; cat $(1)/go.mod $(1)/go.sum; } | git hash-object --stdin | cut -c1-12)
GEN  := bin/gen-$(call key,tools/gen)
LINT := bin/lint-$(call key,tools/lint)

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $$(go env CC)),-race)

##@ Every day

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Builds the binary into bin/millrace
	go build -o bin/millrace ./cmd/millrace

.PHONY: demo
demo: build ## One whole simulated cycle, from the first session to the published checkpoint, in about a minute
	bin/millrace up --demo

.PHONY: test
test: ## Everything that CI asks for, with all set-up; a fresh machine needs Go, git and python3
	@tools/stages compile lint verify test-fuzz test-python test-typescript test-go

.PHONY: test-fast
test-fast: ## The Go tests alone, without the race detector
	go test ./...

.PHONY: format
format: $(LINT) ## Formats the Go code as `make lint` wants it (gofumpt)
	$(LINT)/golangci-lint fmt

##@ The parts of `make test`, in its order

.PHONY: compile
compile: ## Everything compiles, with every build tag
	go build ./...
	go vet -tags kafka4 ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint with .golangci.yml, formatting (gofumpt) included
	$(LINT)/golangci-lint run

.PHONY: verify
verify: $(GEN) ## Generated code and go.mod are what their sources say; the protobuf follows its own rules
	$(GEN)/buf lint
	@tools/fresh $(GEN)
	go mod tidy -diff

.PHONY: test-fuzz
test-fuzz: ## Each fuzz target for FUZZTIME (5s)
	@tools/fuzz $(FUZZTIME)

.PHONY: test-python
test-python: ## Shards and ledger in pyarrow, datasets, polars and DuckDB, assignment by OpenFeature, with the real packages
	@if [ -x clients/python/test.sh ]; then clients/python/test.sh; else echo "no Python client in this tree"; fi

.PHONY: test-typescript
test-typescript: ## Assignment in TypeScript, and OpenFeature's SDKs with the real packages; says so and passes where there is no node
	@clients/typescript/test.sh

.PHONY: test-go
test-go: ## The Go tests with the race detector
	$(if $(RACE),,@echo "NO RACE DETECTOR: it needs a C compiler, and there is none here")
	go test $(RACE) -timeout 12m ./...

##@ Now and then

.PHONY: generate
generate: $(GEN) ## Writes the generated code anew from schemas/**/*.proto
	PATH="$(CURDIR)/$(GEN):$$PATH" buf generate

.PHONY: test-kafka
test-kafka: ## The four roles as processes against a real Kafka 4, installed on first use (needs java and mvn)
	@deploy/kafka4.sh install
	@trap 'deploy/kafka4.sh stop' EXIT; deploy/kafka4.sh start --brokers 1; \
	MILLRACE_TEST_KAFKA="$$(deploy/kafka4.sh bootstrap)" go test -tags kafka4 -count 1 -p 1 -v -run Kafka4 ./internal/eventlog ./cmd/millrace

.PHONY: bench
bench: ## The engine alone against decoding the same events, bytes for an open turn, a replay of the ledger against decoding it, assignments
	go run ./bench -assignments 20000

.PHONY: simulate
simulate: ## What the gate's policy and plan say, held against 3,000 simulated tests of each candidate (10 minutes)
	MILLRACE_EXPERIMENTS=3000 go test -count 1 -timeout 60m -v -run 'Holds|Missed' ./checkpoint/gate/simulation

.PHONY: clean
clean: ## Removes what was built; data folders stay
	rm -rf bin

$(GEN):
	cd tools/gen && go build -o "$(CURDIR)/$@.part/" tool
	mv "$@.part" "$@"

$(LINT):
	cd tools/lint && go build -o "$(CURDIR)/$@.part/" tool
	mv "$@.part" "$@"
