// Runs the health checks of docs/gitops.md with Argo CD's Lua interpreter. A separate module: the operator does not depend on Lua.
module github.com/trellis-k8s/trellis/hack/gitops

go 1.26.0

require (
	github.com/yuin/gopher-lua v1.1.2
	sigs.k8s.io/yaml v1.6.0
)

require go.yaml.in/yaml/v2 v2.4.2 // indirect
