##@ Test what make test leaves out

# The runs of docs/evidence.yaml: $(call RECORD,NAME,VARIABLES,SEED) COMMAND runs the command, and writes the row of this name if it succeeds. Where
# GINKGOFLAGS or one of the variables is set, the run is another one, and writes none.
EVIDENCE := go run ./hack/evidence/cmd/evidence
OTHER     = $(strip $(foreach variable,GINKGOFLAGS $(2),$(if $(filter command environment,$(firstword $(origin $(variable)))),$(variable))))
RECORD    = $(EVIDENCE) run $(1) $(if $(OTHER),--other '$(OTHER)') $(if $(3),--seed "$(3)") --

.PHONY: evidence
evidence: ## List the results of the long runs, with the commits they are of, and what has changed since in the code that they cover
	@$(EVIDENCE) list

# Targets with checks that make test leaves out, one a line: TARGET: what it checks. Each is a target of its own below or above.
define NOT_RUN
test-all: all scenarios, samples of crashes, random lives and a small soak; the chart and the manifests by Helm; README, demo; smoke runs of bench, release, dashboards, gitops
lint: golangci-lint (builds it)
verify: that generated files are up to date (builds their generators)
test-browser: the map drawn in a headless Chromium, of a sandbox too, equals the output of tree (needs Chromium)
test-dashboards: every expression of dashboard and alerts on a real Prometheus that scrapes a sandbox (builds Prometheus)
test-manifests: every manifest of ../shared/manifests (or MANIFESTS=DIR) becomes Ready in a sandbox; make test-all brings up a part of them
test-planner: the requests of the Dynamo planner, by Python's Kubernetes client, against a sandbox (needs python3-kubernetes)
test-peers: the rules of docs/providers.md on the real KAI Scheduler, Grove and LeaderWorkerSet (needs PEERS_SRC and PEERS_BIN)
test-kueue: quotas on the real Kueue: two teams, preemption, a random life while Kueue and the operator are killed (builds Kueue)
test-nodes: packed gangs on real kubelets with containers and DNS, their faults, nodes that are lost (needs Linux and root; builds the kubelet and CoreDNS)
bench-peers: times under Gates, PodGroup, KAI and Grove with KAI on 1,000 nodes, side by side (needs PEERS_SRC and PEERS_BIN)
test-upgrade: deployments through an upgrade from earlier commits, the way back, and another upgrade; two versions that answer in turn (builds these commits)
test-karpenter: a waiting gang gets nodes from the real Karpenter with its KWOK provider (builds it)
test-definitions: the tests of peers on their full definitions instead of the derived ones (needs ../shared/crds)
test-versions: the core scenarios and those of the plugin on Kubernetes 1.30, 1.33 and 1.35 (builds these control planes)
test-faults: crashes at every write of every scene, under each provider and LeaderWorkerSet, long random lives, 200 graphs at the same time; make test-all tries a part of each
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
	@export KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_PEER_DEFINITIONS=$(SHARED)/crds; \
		go test -count=1 $(GOTESTFLAGS) ./test/integration/peers/definitions && $(call GINKGO,-p) $(GINKGOFLAGS) ./test/integration/peers && \
		$(call GINKGO,-p) --focus='What the Dynamo operator stored' $(GINKGOFLAGS) ./internal/operator

# A folder of manifests, at any depth, that make test-manifests brings up.
MANIFESTS ?= $(SHARED)/manifests

.PHONY: test-manifests
test-manifests: build control-plane ## Bring every manifest below MANIFESTS up in a sandbox (../shared/manifests), with what it presupposes (BINDINGS=1: with ClusterTopologyBindings only)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_MANIFESTS="$(abspath $(MANIFESTS))" TRELLIS_MANIFESTS_BINDINGS=$(BINDINGS) \
		$(SCENARIO) --label-filter=manifests $(GINKGOFLAGS) $(SCENARIOS)

# The releases of Kubernetes, other than the one of all other tests, that the core scenarios run on: hack/versions has a file for each.
VERSIONS ?= 1.30 1.33 1.35

.PHONY: test-versions
test-versions: build control-plane ## Run the core scenarios and those of the plugin on control planes of other releases of Kubernetes (VERSIONS="1.30 1.33 1.35"; builds them)
	@$(call RECORD,versions,VERSIONS) $(MAKE) --no-print-directory run-versions

.PHONY: run-versions
run-versions:
	@for version in $(VERSIONS); do \
		echo "Kubernetes $$version"; \
		assets=$$(hack/versions/build.sh "$$version" "$$(bin/kubectl-trellis sandbox binaries)") || exit 1; \
		KUBEBUILDER_ASSETS="$$assets" $(SCENARIO) --label-filter='core || cli' $(GINKGOFLAGS) $(SCENARIOS) || exit 1; \
	done

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
test-faults: build control-plane ## Kill the operator at every write of every scene, on the peers' definitions, too; long random lives (STEPS=100); 200 graphs at the same time
	@$(call RECORD,faults,STEPS,$(LIFE_SEED)) $(MAKE) --no-print-directory run-faults LIFE_SEED="$(LIFE_SEED)"

# SEED repeats a run.
LIFE_SEED = $(or $(TRELLIS_LIFE_SEED),$(SEED))

.PHONY: run-faults
run-faults: export KUBEBUILDER_ASSETS = $(shell bin/kubectl-trellis sandbox binaries)
run-faults: export TRELLIS_LIFE_SEED = $(LIFE_SEED)
run-faults:
	@TRELLIS_CRASHES=all TRELLIS_LIFE_STEPS=$(STEPS) TRELLIS_CROWD=200 $(SCENARIO) --label-filter=faults $(GINKGOFLAGS) $(SCENARIOS)
	@TRELLIS_CRASHES=all $(call GINKGO,-p) --label-filter=faults $(GINKGOFLAGS) ./test/integration/peers

# What make soak runs on, and for how long faults are on. SEED repeats the order of what is done.
DURATION ?= 40m
GRAPHS   ?= 300
NODES    ?= 1000

.PHONY: soak
soak: build control-plane ## Let GRAPHS (300) live on NODES (1000) for DURATION (40m) with faults on, and check the invariants throughout (SEED repeats one)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" TRELLIS_SOAK=$(DURATION) TRELLIS_SOAK_GRAPHS=$(GRAPHS) TRELLIS_SOAK_NODES=$(NODES) \
		TRELLIS_SOAK_SEED=$(SEED) $(call RECORD,soak,DURATION GRAPHS NODES,$(SEED)) $(call GINKGO,-v) --label-filter=soak $(GINKGOFLAGS) $(SCENARIOS)

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
test-peers: build ## Check the rules on the real KAI Scheduler, Grove and LeaderWorkerSet (clones their sources; needs PEERS_BIN: docs/dev/development.md)
	@why="$$(bin/kubectl-trellis sandbox peers --clone 2>&1)" || \
		{ why="$${why##*Error: }"; echo "make test-peers did nothing: $${why//$$'\n'/ }" >&2; exit 2; }; echo "$$why"; \
		$(MAKE) --no-print-directory control-plane && $(call RECORD,peers,PEERS) $(call GINKGO,-v) $(GINKGOFLAGS) ./hack/peers ./hack/peers/up

# How many steps the random life of test-kueue has.
KUEUE_STEPS ?= 40

.PHONY: test-kueue
test-kueue: build control-plane ## Check quotas on the real Kueue alongside a sandbox (builds Kueue; KUEUE_STEPS=200 for a longer random life)
	@TRELLIS_KUEUE_STEPS=$(KUEUE_STEPS) TRELLIS_KUEUE_SEED=$(KUEUE_SEED) \
		$(call RECORD,kueue,KUEUE_STEPS,$(KUEUE_SEED)) $(call GINKGO,-v) $(GINKGOFLAGS) ./hack/kueue

# SEED repeats a run.
KUEUE_SEED = $(or $(TRELLIS_KUEUE_SEED),$(SEED))

# The packages of Debian that real nodes need.
NODE_PACKAGES := containerd runc containernetworking-plugins busybox-static

# Another program may install packages at the same time.
APT_WAIT := -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3

.PHONY: test-nodes
test-nodes: build control-plane node-packages ## Run gangs on real kubelets, containerd and CoreDNS, and break their nodes (Linux, as root; builds the kubelet once)
	@bin/kubectl-trellis sandbox binaries --real-nodes > /dev/null && \
		$(call RECORD,nodes) $(call GINKGO,--procs=4 -v) $(GINKGOFLAGS) ./hack/nodes

.PHONY: node-packages
node-packages:
	@test "$$(id -u)" = 0 || { echo "make test-nodes needs root, for namespaces, mounts and cgroups" >&2; exit 1; }
	@dpkg -s $(NODE_PACKAGES) > /dev/null 2>&1 || { apt-get $(APT_WAIT) update -qq && apt-get $(APT_WAIT) install -y -qq $(NODE_PACKAGES); }

.PHONY: test-upgrade
test-upgrade: build control-plane ## Upgrade from earlier commits, stop half way, go back, and upgrade again, while deployments scale and lose pods (needs the git history)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" $(call RECORD,upgrade) $(call GINKGO,-v) $(GINKGOFLAGS) ./hack/upgrade

.PHONY: test-karpenter
test-karpenter: build control-plane ## Let a gang that waits get nodes from the real Karpenter with its KWOK provider (builds it once)
	@KUBEBUILDER_ASSETS="$$(bin/kubectl-trellis sandbox binaries)" $(call RECORD,karpenter) $(call GINKGO,-v) $(GINKGOFLAGS) ./hack/karpenter

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

.PHONY: gitops-smoke
gitops-smoke: ## The health checks of config/gitops by the Lua interpreter of Argo CD
	@cd hack/gitops && go test ./...

.PHONY: test-browser
test-browser: build control-plane chromium ## Open the map of made-up and running clusters in a headless Chromium; screenshots are kept in bin/map (needs Chromium; not part of make test)
	@cd hack/browser && go test -timeout 10m $(GOTESTFLAGS) ./...

.PHONY: chromium
chromium:
	@command -v chromium chromium-browser google-chrome > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } || \
		{ echo "make test-browser needs Chromium, and can install it (apt-get install chromium) only as root" >&2; exit 1; }
