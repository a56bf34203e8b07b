##@ Measure

.PHONY: bench
bench: build control-plane bin/trellis-bench ## Measure against Kueue, the in-tree scheduler and brute force: one table, and bin/bench.json
	@$(call RECORD,bench) bin/trellis-bench -out bin/bench.json

# Anything in SMALL measures 3 gangs of 2 on 20 nodes, which shows that all works; its figures mean nothing.
.PHONY: bench-peers
bench-peers: build ## Measure the providers against each other on the real KAI Scheduler and Grove (needs PEERS_SRC and PEERS_BIN; SMALL=1 is fast)
	@why="$$(bin/kubectl-trellis sandbox peers KAI Grove 2>&1)" || \
		{ why="$${why##*Error: }"; echo "make bench-peers did nothing: $${why//$$'\n'/ }" >&2; exit 2; }; \
		$(MAKE) --no-print-directory control-plane bin/trellis-bench && \
		$(call RECORD,bench-peers,SMALL) bin/trellis-bench -peers $(if $(SMALL),-smoke) -out bin/bench-peers.json

.PHONY: bench-smoke
bench-smoke: bin/trellis-bench ## The same on small sizes and without a control plane: every answer is checked, no time is
	@cd hack/bench && go test ./...
	@bin/trellis-bench -smoke -sandbox=false -out bin/bench-smoke.json

# A part of Kubernetes is compiled for them.
.PHONY: filters
filters: ## Compare the planner with the kube-scheduler's own filters on random small clusters
	@cd hack/filters && TRELLIS_CHECKS=$(or $(CHECKS),300) go test -count=1 ./...

.PHONY: bin/trellis-bench
bin/trellis-bench:
	@cd hack/bench && go build -o ../../$@ .
