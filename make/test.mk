##@ Test

.PHONY: check
check: ## What takes a minute: formatting, go vet, and that docs keep to their rules
	@unformatted="$$(gofmt -l .)" && test -z "$$unformatted" || { echo "not formatted; run: gofmt -w $$unformatted" >&2; exit 1; }
	@go test -vet=off -skip '^(TestMigrationCommands|TestReadsWithoutTheOperator)$$' ./docs # which need an API server
	@for module in . $(MODULES); do go -C $$module vet ./... || exit 1; done

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
# ginkgo in some processes, on some packages. Without debug information, as go test has it, a suite links in half the time. COMPILED are
# the links to programs that hack/gotest.sh made.
GINKGO = $(TOOL) ginkgo $(1) --ldflags='-s -w' --keep-going --require-suite --silence-skips --vet=off --timeout=24h $$(test -t 1 || echo --no-color)
COMPILED    = $(foreach suite,$(1),$(suite)/$(notdir $(suite)).test)
WITH_SPECS  = $(GINKGOFLAGS) $(COMPILED) -- -test.run '^($(SUITE_TESTS))$$'
RUN_SPECS   = $(call GINKGO,$(if $(PACKAGES),--procs=$(PACKAGES),-p)) --output-dir=bin/reports --junit-report=specs.xml $(call WITH_SPECS,$(SPECS))
RUN_SCENARIOS = $(SCENARIO) --output-dir=bin/reports --junit-report=scenarios.xml $(call WITH_SPECS,$(SCENARIOS))

# The scenarios of a label are $(SCENARIO) --label-filter=LABEL $(SCENARIOS).
CPUS     := $(or $(PACKAGES),$(GOMAXPROCS),$(shell getconf _NPROCESSORS_ONLN))
SCENARIO  = $(call GINKGO,--procs=$(shell n=$$((4 * $(CPUS))); echo $$((n < 32 ? n : 32))))

# What is tested: everything, or the packages that SUITE names: ./internal/webhook, or ./internal/... with all below.
SUITE  ?=
NAMED   = $(patsubst %/,%,$(SUITE))
$(if $(filter-out ./%,$(NAMED)),$(error SUITE=$(SUITE): want packages such as ./internal/webhook or ./internal/...))
MATCHED = $(or $(foreach name,$(NAMED),$(if $(filter %/...,$(name)),$(name:/...=) $(name:/...=/%),$(name))),%)
TESTED  = $(or $(NAMED),$(LONGEST) ./...)
SPECS   = $(filter $(MATCHED),$(SUITES))
PLAYED  = $(filter $(MATCHED),$(SCENARIOS))

# Go tests by gotestsum. Without specs their output goes to the terminal.
RUN_GO = TRELLIS_SPECS=skip $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary skipped --junitfile bin/reports/tests.xml --raw-command -- hack/gotest.sh \
	-json -timeout 60m -vet=off $(if $(PACKAGES),-p $(PACKAGES)) $(GOTESTFLAGS) $(TESTED)

# Tests with the control plane. Go tests and then the scenarios run alongside the specs, since specs and scenarios wait more than they compute; their output
# follows that of the specs. With PACKAGES=1 all run one after the other. At the end there is a line for each kind. TRELLIS_TESTS chooses the tier.
RUN_TESTS = unset TRELLIS_SPECS; export KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" GOGC=$(GARBAGE); failed=0; \
	rm -rf bin/reports && mkdir -p bin/reports; trap 'kill $$(jobs -p) 2> /dev/null; exit 130' INT; \
	(trap 'kill $$! 2> /dev/null; exit 143' TERM; failed=0; \
		$(RUN_GO) & wait $$! || failed=1; \
		$(if $(PLAYED),$(RUN_SCENARIOS) & wait $$! || failed=1;) \
		exit $$failed) $(if $(SPECS),> bin/reports/tests.log 2>&1) & tests=$$!; \
	$(if $(filter 1,$(PACKAGES)),wait $$tests || failed=1; tests=;) \
	$(if $(SPECS),$(RUN_SPECS) || failed=1;) \
	wait $$tests || failed=1; $(if $(SPECS),cat bin/reports/tests.log;) \
	for kind in tests $(if $(SPECS),specs) $(if $(PLAYED),scenarios); do awk -F'"' -v kind=$$kind '/<testsuites / { for (i = 1; i < NF; i += 2) { sub(/.* /, "", $$i); n[$$i] = $$(i + 1) } } \
		/<testcase name="\[[^I]/ { n["tests="]-- } \
		END { printf "%s: %d run, %d failed (bin/reports/%s.xml)\n", kind, n["tests="] - n["disabled="], n["failures="] + n["errors="], kind }' bin/reports/$$kind.xml; done; \
	exit $$failed

.PHONY: test
test: control-plane compile-tests ## The core tier: unit, property, golden and docs tests, API servers, the core scenarios in a sandbox
	@export TRELLIS_TESTS=core RAPID_SEED=1; $(RUN_TESTS)
	@$(MAKE) --no-print-directory not-run

# Properties draw the same cases in every make test, and others in every make test-all. The seed repeats a run.
SEED ?=
SEED := $(or $(SEED),$(shell date +%s))

.PHONY: test-all
test-all: control-plane compile-tests ## Every test that needs Go alone: also all scenarios, crashes, lives, manifests, the chart, README, demo, bench, release, dashboards, gitops
	@echo "seed of the properties: $(SEED) (make test-all SEED=$(SEED))"
	@export TRELLIS_TESTS=all RAPID_SEED=$(SEED); $(RUN_TESTS)
	@$(MAKE) --no-print-directory bench-smoke release-smoke dashboards-smoke gitops-smoke filters
	@$(MAKE) --no-print-directory not-run TIER=test-all

# What make deflake repeats, alongside processes that use every CPU: SUITE or everything, in the tier TESTS, ROUNDS times.
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
round: compile-tests
round: GOTESTFLAGS += -count=1 -shuffle=on
round: GINKGOFLAGS += --randomize-all
round:
	@export TRELLIS_TESTS=$(TESTS); $(RUN_TESTS)

# Packages and their tests are compiled before the first API server starts: alongside a compiler, a control plane starves.
.PHONY: compile-tests
compile-tests: control-plane
	@$(TOOL) gotestsum --version > /dev/null
	@$(TOOL) ginkgo version > /dev/null
	@GOGC=$(GARBAGE) hack/gotest.sh -c -vet=off $(GOTESTFLAGS) $(TESTED)
