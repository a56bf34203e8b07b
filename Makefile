# Trellis. `make demo` shows it, `make test` proves it; both set up all they need on a machine with Go.

SHELL       := /usr/bin/env bash -o pipefail
TOOL        := go tool -modfile=hack/tools/go.mod
FUZZTIME    ?= 1m
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
	@go run ./hack/demo $(if $(KEEP),--keep)

# Without the -trimpath of releases, what is compiled here serves the tests, too.
.PHONY: build
build: ## Build bin/trellis-manager and bin/kubectl-trellis
	@go build -o bin/trellis-manager ./cmd/trellis-manager
	@go build -o bin/kubectl-trellis ./cmd/kubectl-trellis

.PHONY: dist
dist: ## Write dist/install.yaml and the chart's package
	@mkdir -p dist
	@$(TOOL) kustomize build config/default > dist/install.yaml
	@$(TOOL) helm package charts/trellis --destination dist

.PHONY: prepare-release
prepare-release: ## Have the chart, the manifests, the pages and the changelog name a version, for the commit that is released (VERSION=v1.2.3)
	@test -n "$(VERSION)" || { echo "make prepare-release needs a version: make prepare-release VERSION=v1.2.3" >&2; exit 1; }
	@cd hack/release && go run . prepare --version "$(VERSION)"

.PHONY: release
release: ## Write everything a release ships into dist/, from the commit that is checked out (VERSION=v0.1.0)
	@test -n "$(VERSION)" || { echo "make release needs a version: make release VERSION=v0.1.0" >&2; exit 1; }
	@rm -rf dist
	@cd hack/release && go run . build --version "$(VERSION)"

.PHONY: push
push: ## Push the images of make release (IMAGE=registry.example/trellis-manager:v0.1.0)
	@test -n "$(IMAGE)" || { echo "make push needs a name with a tag: make push IMAGE=registry.example/trellis-manager:v0.1.0" >&2; exit 1; }
	@cd hack/release && go run . push "$(IMAGE)"

##@ Test

.PHONY: check
check: ## What takes a minute: formatting, go vet, and that docs keep to their rules
	@unformatted="$$(gofmt -l .)" && test -z "$$unformatted" || { echo "not formatted; run: gofmt -w $$unformatted" >&2; exit 1; }
	@go test -vet=off -skip '^(TestMigrationCommands|TestReadsWithoutTheOperator)$$' ./docs # which need an API server
	@go vet ./...

# How many packages are tested at once: as many as there are CPUs (GOMAXPROCS), which is the default of go test.
PACKAGES ?=
# The packages that take the longest begin first, so that none of them is alone at the end.
LONGEST  := ./internal/operator ./test/integration/peers ./test/install
# Control planes of tests are small and live briefly: collecting their garbage less often saves a sixth of the CPU time.
GARBAGE  ?= 300

# The packages with Ginkgo suites. ginkgo runs their specs, suite by suite, in as many processes as there are CPUs, or PACKAGES; go test runs what else
# they have, for these processes show nothing of it. Scenarios in a sandbox wait more than they compute: they have four processes for each CPU.
SUITE_FILES := $(shell grep -rl --include='*_test.go' 'suite\.Run.t, ' internal test)
SCENARIOS   := ./test/e2e
SUITES      := $(filter-out $(SCENARIOS),$(patsubst %/,./%,$(sort $(dir $(SUITE_FILES)))))
SUITE_TESTS := $(shell awk '/^func Test/ {match($$2, /^[A-Za-z0-9]+/); name = substr($$2, 1, RLENGTH)} /suite\.Run.t, / {printf "%s%s", sep, name; sep = "|"}' $(SUITE_FILES) /dev/null)
GINKGOFLAGS ?=
# ginkgo in some processes, on some packages.
GINKGO = $(TOOL) ginkgo $(1) --keep-going --require-suite --silence-skips --vet=off --timeout=24h $$(test -t 1 || echo --no-color)
WITH_SPECS  = $(GINKGOFLAGS) $(1) -- -test.run '^($(SUITE_TESTS))$$'
RUN_SPECS   = $(call GINKGO,$(if $(PACKAGES),--procs=$(PACKAGES),-p)) --output-dir=bin/reports --junit-report=specs.xml $(call WITH_SPECS,$(SPECS))
RUN_SCENARIOS = $(SCENARIO) --output-dir=bin/reports --junit-report=scenarios.xml $(call WITH_SPECS,$(SCENARIOS))

# The scenarios of a label are $(SCENARIO) --label-filter=LABEL $(SCENARIOS).
CPUS     := $(or $(PACKAGES),$(GOMAXPROCS),$(shell getconf _NPROCESSORS_ONLN))
SCENARIO  = $(call GINKGO,--procs=$(shell n=$$((4 * $(CPUS))); echo $$((n < 32 ? n : 32))))

# What is tested: everything, or the packages in SUITE.
SUITE  ?=
TESTED  = $(or $(SUITE),$(LONGEST) ./...)
SPECS   = $(if $(SUITE),$(filter $(SUITE),$(SUITES)),$(SUITES))
PLAYED  = $(if $(SUITE),$(filter $(SUITE),$(SCENARIOS)),$(SCENARIOS))

# Tests with the control plane: Go tests by gotestsum, then specs and scenarios by ginkgo, then a line for each. TRELLIS_TESTS chooses the tier.
RUN_TESTS = trap 'exit 130' INT; export KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" GOGC=$(GARBAGE); failed=0; \
	rm -rf bin/reports && mkdir -p bin/reports; \
	TRELLIS_SPECS=skip $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary skipped --junitfile bin/reports/tests.xml -- \
		-timeout 60m -vet=off $(if $(PACKAGES),-p $(PACKAGES)) $(GOTESTFLAGS) $(TESTED) || failed=1; \
	$(if $(SPECS),$(RUN_SPECS) || failed=1;) \
	$(if $(PLAYED),$(RUN_SCENARIOS) || failed=1;) \
	for kind in tests $(if $(SPECS),specs) $(if $(PLAYED),scenarios); do awk -F'"' -v kind=$$kind '/<testsuites / { for (i = 1; i < NF; i += 2) { sub(/.* /, "", $$i); n[$$i] = $$(i + 1) } } \
		/<testcase name="\[[^I]/ { n["tests="]-- } \
		END { printf "%s: %d run, %d failed (bin/reports/%s.xml)\n", kind, n["tests="] - n["disabled="], n["failures="] + n["errors="], kind }' bin/reports/$$kind.xml; done; \
	exit $$failed

.PHONY: test
test: control-plane compile-tests ## The core tier: unit, property, golden and docs tests, API servers, the core scenarios in a sandbox
	@export TRELLIS_TESTS=core RAPID_SEED=1; $(RUN_TESTS)
	@$(MAKE) --no-print-directory not-run

# Properties draw the same cases in every make test, and others in every make test-all. The seed repeats a run.
SEED ?= $(shell date +%s)

.PHONY: test-all
test-all: control-plane compile-tests ## Every test that needs Go alone: also all scenarios, crashes, lives, manifests, the chart, README, demo, bench, release, dashboards
	@echo "seed of the properties: $(SEED) (make test-all SEED=$(SEED))"
	@export TRELLIS_TESTS=all RAPID_SEED=$(SEED); $(RUN_TESTS)
	@$(MAKE) --no-print-directory bench-smoke release-smoke dashboards-smoke
	@$(MAKE) --no-print-directory not-run TIER=test-all

# What make deflake repeats, beside processes that take every CPU: SUITE or everything, in the tier TESTS, ROUNDS times.
ROUNDS ?= 20
TESTS  ?= core

.PHONY: deflake
deflake: compile-tests ## Repeat tests in random order on a machine with no CPU to spare, until one fails or ROUNDS (20) are over (SUITE=./internal/webhook TESTS=all)
	@for cpu in $$(seq "$$(getconf _NPROCESSORS_ONLN)"); do (while :; do :; done) & done; trap 'kill $$(jobs -p)' EXIT; \
	for round in $$(seq $(ROUNDS)); do \
		echo "round $$round of $(ROUNDS)"; \
		$(MAKE) --no-print-directory round || { echo "failed in round $$round of $(ROUNDS)"; exit 1; }; \
	done

.PHONY: round
round: GOTESTFLAGS += -count=1 -shuffle=on
round: GINKGOFLAGS += --randomize-all
round:
	@export TRELLIS_TESTS=$(TESTS); $(RUN_TESTS)

# Packages and their tests are compiled before the first API server starts: beside a compiler, a control plane starves.
.PHONY: compile-tests
compile-tests: control-plane
	@$(TOOL) gotestsum --version > /dev/null
	@$(TOOL) ginkgo version > /dev/null
	@go list -export -test ./... > /dev/null

# Targets with checks that make test leaves out, one a line: TARGET: what it checks. Each is a target of its own below or above.
define NOT_RUN
test-all: all scenarios, samples of crashes, random lives and a small soak; the chart and the manifests by Helm; README, demo; smoke runs of bench, release, dashboards
lint: golangci-lint (builds it)
verify: that generated files are up to date (builds their generators)
test-browser: the map drawn in a headless Chromium, of a sandbox too, equals what tree says (needs Chromium)
test-dashboards: every expression of dashboard and alerts on a real Prometheus that scrapes a sandbox (builds Prometheus)
test-manifests: every manifest of ../shared/manifests (or MANIFESTS=DIR) becomes Ready in a sandbox; make test-all brings up a part of them
test-planner: the requests of the Dynamo planner, by Python's Kubernetes client, against a sandbox (needs python3-kubernetes)
test-peers: the rules of docs/providers.md on the real KAI Scheduler, Grove and LeaderWorkerSet (needs PEERS_SRC and PEERS_BIN)
bench-peers: times under Gates, PodGroup, KAI and Grove with KAI on 1,000 nodes, side by side (needs PEERS_SRC and PEERS_BIN)
test-definitions: the tests of peers on their full definitions instead of the derived ones (needs ../shared/crds)
test-faults: crashes at every write of every scene, long random lives, 200 graphs at once; make test-all tries a part of each
soak: random lives of 300 graphs on 1,000 nodes for DURATION (40m), with faults on; make test-all runs a small one for 15 seconds
fuzz: every fuzz target for FUZZTIME (1m); make test runs them on their seeds only
test-input: every field of what users write with every value made from its schema; make test-all tries a sample
test-release: make a release of all platforms twice, run its image in a sandbox, install its plugin with krew
vulncheck: known vulnerabilities in what is linked (needs the vulnerability database)
endef
export NOT_RUN

# What tests use when it lies beside the repository: real deployments, and the peers' own custom resource definitions.
SHARED := $(abspath ../shared)

.PHONY: test-definitions
test-definitions: build control-plane ## Test against the peers' own definitions instead of those derived from them (in ../shared/crds)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_PEER_DEFINITIONS=$(SHARED)/crds go test -count=1 -timeout 20m $(GOTESTFLAGS) ./test/integration/peers/...
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_PEER_DEFINITIONS=$(SHARED)/crds go test -count=1 -timeout 20m $(GOTESTFLAGS) -run MovesIn ./internal/operator

# A folder of manifests, at any depth, that make test-manifests brings up.
MANIFESTS ?= $(SHARED)/manifests

.PHONY: test-manifests
test-manifests: build control-plane ## Bring every manifest below MANIFESTS up in a sandbox (../shared/manifests), with what it presupposes
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_MANIFESTS="$(abspath $(MANIFESTS))" \
		$(SCENARIO) --label-filter=manifests $(GINKGOFLAGS) $(SCENARIOS)

# The Python that has the Kubernetes client: the one in PATH, or Debian's own.
PYTHON = $(shell for python in python3 /usr/bin/python3; do $$python -c 'import kubernetes' 2> /dev/null && { echo $$python; break; }; done)

.PHONY: test-planner
test-planner: build control-plane python3-kubernetes ## Send the Dynamo planner's requests by Python's Kubernetes client to a sandbox
	@$(PYTHON) -W ignore::ResourceWarning hack/planner/planner_test.py -v

.PHONY: python3-kubernetes
python3-kubernetes:
	@test -n "$(PYTHON)" || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq python3-kubernetes; } || \
		{ echo "make test-planner needs Python's Kubernetes client, and can install it (apt-get install python3-kubernetes) only as root" >&2; exit 1; }

# The tier whose omissions not-run lists.
TIER ?= test

.PHONY: not-run
not-run: ## List the checks that make test leaves out (TIER=test-all: those that make test-all leaves out)
	@echo "Not run by make $(TIER):"
	@echo "$$NOT_RUN" | grep -v '^$(TIER):' | sed 's/^/  make /'
	@test -d $(SHARED)/manifests || echo "  tests on real deployments ($(SHARED)/manifests is not there)"

# How long the lives of test-faults are.
STEPS ?= 100

.PHONY: test-faults
test-faults: build control-plane ## Kill the operator at every write of every scene; long random lives (STEPS=100); 200 graphs at once
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_CRASHES=all TRELLIS_LIFE_STEPS=$(STEPS) TRELLIS_CROWD=200 \
		$(SCENARIO) --label-filter=faults $(GINKGOFLAGS) $(SCENARIOS)

# What make soak runs on, and for how long faults are on. SEED repeats the order of what is done.
DURATION ?= 40m
GRAPHS   ?= 300
NODES    ?= 1000

.PHONY: soak
soak: build control-plane ## Let GRAPHS (300) live on NODES (1000) for DURATION (40m) with faults on, and check the invariants throughout (SEED repeats one)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_SOAK=$(DURATION) TRELLIS_SOAK_GRAPHS=$(GRAPHS) TRELLIS_SOAK_NODES=$(NODES) \
		TRELLIS_SOAK_SEED=$(SEED) $(call GINKGO,-v) --label-filter=soak $(GINKGOFLAGS) $(SCENARIOS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while (FUZZTIME=1m); what is found is kept in testdata/fuzz of the package
	@grep -rlE --include='*_test.go' '^func Fuzz' api internal | sort | while read -r file; do \
		sed -nE 's/^func (Fuzz[A-Za-z0-9]*)\(.*/\1/p' "$$file" | while read -r target; do \
			echo "$$(dirname "$$file") $$target" && \
			go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -timeout 60m $(GOTESTFLAGS) </dev/null || exit 1; \
		done || exit 1; \
	done

# Which fields test-input tries: all, or those whose kind and path have a text, e.g. FIELDS=spec.services{}.resources
FIELDS ?= all

.PHONY: test-input
test-input: build control-plane ## Set, change and unset every field of the definitions on an API server with admission (FIELDS=spec.restart)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_INPUT="$(FIELDS)" $(TOOL) ginkgo -p --timeout=24h ./test/input

.PHONY: test-peers
test-peers: build ## Check the rules on the real KAI Scheduler, Grove and LeaderWorkerSet (clones their sources; needs PEERS_BIN: docs/development.md)
	@bin/kubectl-trellis sandbox peers --clone || { echo "skipped: the real peers are not there"; exit 0; }; \
		$(MAKE) --no-print-directory control-plane && $(call GINKGO,-v) $(GINKGOFLAGS) ./hack/peers ./hack/peers/up

.PHONY: test-release
test-release: build control-plane ## Make a release of the last commit twice, compare, run its image in a sandbox, install its plugin with krew
	@cd hack/release && KUBEBUILDER_ASSETS="$$(../../bin/kubectl-trellis sandbox binaries)" go test -count=1 -timeout 60m -run '^TestRelease$$' -v .

.PHONY: release-smoke
release-smoke: ## The parts of a release on small files: image, archives, manifests, changelog, workflows
	@cd hack/release && go test -short ./...

.PHONY: test-dashboards
test-dashboards: build control-plane bin/prometheus ## Run every expression of dashboard and alerts on a Prometheus that scrapes a sandbox's operator
	@cd hack/dashboards && go test -count=1 -timeout 15m -run '^TestOnPrometheus$$' -v .

.PHONY: dashboards-smoke
dashboards-smoke: ## Alerts by Prometheus' own rules, expressions by its parser, and that every metric is there and documented
	@cd hack/dashboards && go test -short ./...

# Prometheus finds its targets by Kubernetes' API here; leaving the other ways out makes it half as large.
.PHONY: bin/prometheus
bin/prometheus:
	@cd hack/dashboards && go build -tags remove_all_sd,enable_kubernetes_sd,netgo -o ../../$@ github.com/prometheus/prometheus/cmd/prometheus

.PHONY: bench
bench: build control-plane bin/trellis-bench ## Measure against Kueue, the in-tree scheduler and brute force: one table, and bin/bench.json
	@bin/trellis-bench -out bin/bench.json

# Anything in SMALL measures 3 gangs of 2 on 20 nodes, which shows that all works; its figures mean nothing.
.PHONY: bench-peers
bench-peers: build ## Measure the providers against each other on the real KAI Scheduler and Grove (needs PEERS_SRC and PEERS_BIN; SMALL=1 is fast)
	@why="$$(bin/kubectl-trellis sandbox peers KAI Grove 2>&1)" || { echo "skipped: $${why#Error: }"; exit 0; }; \
		$(MAKE) --no-print-directory control-plane bin/trellis-bench && bin/trellis-bench -peers $(if $(SMALL),-smoke) -out bin/bench-peers.json

.PHONY: bench-smoke
bench-smoke: bin/trellis-bench ## The same on small sizes and without a control plane: every answer is checked, no time is
	@cd hack/bench && go test ./...
	@bin/trellis-bench -smoke -sandbox=false -out bin/bench-smoke.json

.PHONY: bin/trellis-bench
bin/trellis-bench:
	@cd hack/bench && go build -o ../../$@ .

.PHONY: test-browser
test-browser: build control-plane chromium ## Open the map of made-up and running clusters in a headless Chromium; screenshots are kept in bin/map (needs Chromium; not part of make test)
	@cd hack/browser && go test -timeout 10m $(GOTESTFLAGS) ./...

.PHONY: chromium
chromium:
	@command -v chromium chromium-browser google-chrome > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } || \
		{ echo "make test-browser needs Chromium, and can install it (apt-get install chromium) only as root" >&2; exit 1; }

.PHONY: sandbox-up
sandbox-up: build ## Start a sandbox: a real control plane with simulated nodes and the operator (ARGS="--zones 4 --hosts 16")
	@go run ./hack/sandbox up $(ARGS)

.PHONY: sandbox-status
sandbox-status: ## Show the processes and nodes of the sandbox (ARGS="--name copy")
	@go run ./hack/sandbox status $(ARGS)

.PHONY: sandbox-down
sandbox-down: ## End the sandbox and remove everything it left (ARGS="--name copy")
	@go run ./hack/sandbox down $(ARGS)

.PHONY: control-plane
control-plane: build ## Build the control plane that tests and sandboxes run (once; about 13 minutes on two cores)
	@bin/kubectl-trellis sandbox binaries > /dev/null

# Two clones may be linted at once, on a machine of any speed.
LINTFLAGS ?= --allow-parallel-runners --timeout 0

.PHONY: lint
lint: ## Run golangci-lint
	@# Its cache holds paths: shared between two clones, one would get the other's lines.
	@GOLANGCI_LINT_CACHE="$(CURDIR)/bin/lint-cache" $(TOOL) golangci-lint run $(LINTFLAGS)
	@for module in bench browser dashboards peers release; do \
		(cd hack/$$module && GOLANGCI_LINT_CACHE="$(CURDIR)/bin/lint-cache" go tool -modfile=../tools/go.mod golangci-lint run $(LINTFLAGS)) || exit 1; \
	done

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs the vulnerability database)
	@$(TOOL) govulncheck ./...

##@ Generate

.PHONY: generate
generate: ## Regenerate every generated file
	@go run ./hack/crdgen
	@$(TOOL) controller-gen rbac:roleName=trellis-manager-role paths="./internal/...;./cmd/..." output:rbac:dir=config/rbac
	@$(TOOL) crd-ref-docs --source-path=./api --config=hack/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md --log-level=ERROR
	@cd hack/dashboards && go run . ../../config/grafana/trellis.json
	@go run ./hack/chartcrds
	@go run ./hack/docmap

.PHONY: verify
verify: ## Check that generated files are up to date
	@hack/verify-generated.sh

.PHONY: clean
clean: ## Remove what was built
	@rm -rf bin dist
