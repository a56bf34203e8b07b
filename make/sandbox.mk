##@ Sandbox

.PHONY: sandbox-up
sandbox-up: build ## Start a sandbox: a real control plane with simulated nodes and the operator (ARGS="--zones 4 --hosts 16")
	@bin/kubectl-trellis sandbox up $(ARGS)

.PHONY: sandbox-status
sandbox-status: bin/kubectl-trellis ## Show the processes and nodes of the sandbox (ARGS="--name copy")
	@bin/kubectl-trellis sandbox status $(ARGS)

.PHONY: sandbox-down
sandbox-down: bin/kubectl-trellis ## End the sandbox and remove everything it left (ARGS="--name copy")
	@bin/kubectl-trellis sandbox down $(ARGS)
