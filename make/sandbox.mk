##@ Sandbox

.PHONY: sandbox-up
sandbox-up: build ## Start a sandbox: a real control plane with simulated nodes and the operator (ARGS="--zones 4 --hosts 16")
	@go run ./hack/sandbox up $(ARGS)

.PHONY: sandbox-status
sandbox-status: ## Show the processes and nodes of the sandbox (ARGS="--name copy")
	@go run ./hack/sandbox status $(ARGS)

.PHONY: sandbox-down
sandbox-down: ## End the sandbox and remove everything it left (ARGS="--name copy")
	@go run ./hack/sandbox down $(ARGS)
