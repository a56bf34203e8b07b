##@ Generate

.PHONY: generate
generate: ## Regenerate every generated file
	@go run ./hack/crdgen
	@$(TOOL) controller-gen rbac:roleName=trellis-manager-role paths="./internal/...;./cmd/..." output:rbac:dir=config/rbac
	@$(TOOL) crd-ref-docs --source-path=./api --config=hack/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md --log-level=ERROR
	@cd hack/dashboards && go run . ../../config/grafana/trellis.json
	@go run ./hack/chartcrds
	@go run ./hack/docmap
	@$(EVIDENCE) pages

.PHONY: verify
verify: ## Check that generated files are up to date
	@hack/verify-generated.sh

# Two clones may be linted at once, on a machine of any speed.
LINTFLAGS ?= --allow-parallel-runners --timeout 0

# The modules that make check and make test cover, too. The dependencies of the others take half an hour to be read on a machine that has none of them.
LINTED ?= . $(MODULES)

.PHONY: lint-all
lint-all: LINTED += $(addprefix hack/,bench browser dashboards filters gitops karpenter kueue nodes peers release upgrade)
lint-all: lint ## make lint of every module, also of those that have tests of their own

.PHONY: lint
lint: ## Run golangci-lint, with the linter of Kubernetes APIs
	@# Its cache holds paths: shared between two clones, one would get the other's lines.
	@# Two modules at a time: parts of a run use one CPU.
	@printf '%s\n' $(LINTED) | xargs -P 2 -I MODULE \
		env GOLANGCI_LINT_CACHE="$(CURDIR)/bin/lint-cache" go -C MODULE tool -modfile="$(CURDIR)/hack/tools/go.mod" golangci-lint-kube-api-linter run $(LINTFLAGS)

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs the vulnerability database)
	@for module in . $(MODULES); do go -C $$module tool -modfile="$(CURDIR)/hack/tools/go.mod" govulncheck ./... || exit 1; done
