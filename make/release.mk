##@ Release

.PHONY: dist
dist: ## Write dist/install.yaml and the chart's package
	@mkdir -p dist
	@$(TOOL) kustomize build config/default > dist/install.yaml
	@$(TOOL) helm package charts/trellis --destination dist

.PHONY: prepare-release
prepare-release: ## Have source, definitions, manifests, chart, pages and changelog name the version that is released (VERSION=v1.2.3), or all but pages the next one (v1.3.0-dev)
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
