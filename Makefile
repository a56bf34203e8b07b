# Trellis. `make demo` shows it, `make test` proves it; both set up all they need on a machine with Go.

SHELL       := /usr/bin/env bash -o pipefail
TOOL        := go tool -modfile=hack/tools/go.mod
FUZZTIME    ?= 1m
# The modules below this one that check, test and lint cover too. The other modules below hack have targets of their own.
export MODULES = hack/sandbox test/e2e
# Nothing here needs C, and without it a test program links in half the time.
export CGO_ENABLED = 0
# API servers of tests start side by side, on machines of any speed.
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT = 2m
GOTESTFLAGS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo
demo: build ## Bring a cluster up, place three graphs, show every refusal, take it down again (KEEP=1 leaves it running)
	@go -C hack/sandbox run ./cmd/demo $(if $(KEEP),--keep)

# Without the -trimpath of releases, what is compiled here serves the tests, too. This plugin has the command sandbox; a released one does not.
.PHONY: build
build: bin/kubectl-trellis ## Build bin/trellis-manager and bin/kubectl-trellis
	@go build -o bin/trellis-manager ./cmd/trellis-manager

.PHONY: bin/kubectl-trellis
bin/kubectl-trellis:
	@go -C hack/sandbox build -o ../../$@ ./cmd/kubectl-trellis

.PHONY: control-plane
control-plane: build ## Build the control plane that tests and sandboxes run (once; about 13 minutes on two cores)
	@bin/kubectl-trellis sandbox binaries > /dev/null

.PHONY: clean
clean: ## Remove what was built
	@rm -rf bin dist
	@find internal test -type l -name "*.test" -delete # links to what was in bin

include make/test.mk make/long.mk make/bench.mk make/sandbox.mk make/generate.mk make/release.mk
