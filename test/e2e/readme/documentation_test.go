// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// TestDocumentation runs every block of commands that has no mark: the README's tour on the release that it names; on another cluster, with what is
// built here, the pages, then what installs, upgrades and removes the operator.
func TestDocumentation(t *testing.T) {
	tier.All(t)
	blocks := read(t)
	parts := 0
	t.Run("tour", func(t *testing.T) {
		parts++
		if runtime.GOOS != "linux" {
			for _, b := range blocks {
				b.done = b.done || b.page == "README.md"
			}
			t.Skip("the images of a release are for Linux")
		}
		from := build(t)
		start(t, blocks, &from).tour(from)
	})
	t.Run("pages", func(t *testing.T) { parts++; start(t, blocks, nil).pages() })
	if t.Failed() || parts < 2 {
		return // what follows a failure, or was not asked for, is not run
	}
	for _, b := range blocks {
		if !b.done && b.why == "" && b.elsewhere == "" {
			t.Errorf("%s is not run and says not why", b)
		}
	}
}

// pages runs the blocks of all pages. They speak of the tour's topology and graph.
func (r *reader) pages() {
	r.Helper()
	r.clone()
	r.settle()
	r.topologies()
	r.prepare()
	for _, b := range r.blocks {
		if b.done || b.why != "" || b.elsewhere != "" || b.page == "README.md" || installs.MatchString(b.text) {
			continue
		}
		r.Run(b.String(), func(t *testing.T) { r.in(t).try(b) })
	}
	r.Run("install", func(t *testing.T) { r.in(t).install() })
}

// model is a deployment that the pages speak of.
const model = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: %s
spec:
  topologyConstraint: {clusterTopologyName: hall, packDomain: zone}
  components:
  - name: Decode
    replicas: 2
    podTemplate:
      spec:
        containers:
        - name: main
          image: registry.example.com/inference/vllm:1.0.0
          command: [python3, -m, dynamo.vllm, --model, example/small]
          resources:
            limits: {nvidia.com/gpu: "1"}
`

// prepare makes what the pages take for granted: deployments llm and my-llm, and files.
func (r *reader) prepare() {
	r.Helper()
	for _, name := range []string{"llm", "my-llm"} {
		manifest := fmt.Sprintf(model, name)
		r.write("manifests/"+name+".yaml", manifest)
		r.run("kubectl apply -f manifests/" + name + ".yaml && kubectl wait --for=condition=Ready dgd/" + name + " --timeout=60s")
	}
	r.write("my-llm.yaml", fmt.Sprintf(model, "my-llm"))
	place := map[string]string{"topology.kubernetes.io/zone": "zone-2", "topology.trellis.dev/block": "block-0", "topology.trellis.dev/rack": "rack-0"}
	r.write("nodes.yaml", hosts(r.T, 0, 8, place))
	r.write("four-more-nodes.yaml", hosts(r.T, 8, 12, place))
	r.run("kubectl get ctopo hall -o yaml > topology.yaml && cp topology.yaml manifests/")
}

// placeholders are what a reader fills in, the first that fits.
var placeholders = []struct {
	pattern *regexp.Regexp
	value   string
}{
	{regexp.MustCompile(`\bctopo(/| )NAME\b`), "ctopo${1}hall"},
	{regexp.MustCompile(`\bNAME\b`), "chat"},
	{regexp.MustCompile(`\bPOD\b`), "chat-router-0"},
	{regexp.MustCompile(`\bNODE\.\.\.`), "host-0"},
	{downloads, "$$RELEASE"},
}

// installs are commands that change or remove the operator; the others come before.
var installs = regexp.MustCompile(`install\.yaml|config/default|config/crd|helm install|delete validatingwebhookconfiguration`)

// try runs one block. A command that serves until it is interrupted is interrupted when it serves.
func (r *reader) try(b *block) {
	r.Helper()
	b.done = true
	var script strings.Builder
	for line := range strings.Lines(b.text) {
		for _, p := range placeholders {
			line = p.pattern.ReplaceAllString(line, p.value)
		}
		if strings.Contains(line, "map --serve") {
			r.serve(line)
			continue
		}
		script.WriteString(line)
	}
	r.run(script.String())
}

// serve runs a command that serves a page, gets the page, and interrupts it.
func (r *reader) serve(command string) {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), "bash", "-c", "exec "+command)
	cmd.Env, cmd.Dir = r.env, r.folder
	says, err := cmd.StderrPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	late := time.AfterFunc(patience.Limit(), func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	address, lines := "", bufio.NewScanner(says)
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`http://\S+`).FindString(lines.Text())
	}
	if address == "" {
		r.Fatalf("%s: says no address: %v", command, cmd.Wait())
	}
	if html := r.get(address); !strings.Contains(html, "host-7") {
		r.Errorf("%s: the page at %s has no host-7:\n%.2000s", command, address, html)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		r.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, says) // to its end
	if err := cmd.Wait(); err != nil {
		r.Errorf("%s: %v", command, err)
	}
}

func (r *reader) get(address string) string {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, nil)
	if err != nil {
		r.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer answer.Body.Close()
	html, err := io.ReadAll(answer.Body)
	if err != nil {
		r.Fatal(err)
	}
	return string(html)
}

// install runs what installs, upgrades and removes. The operator of the sandbox runs on alongside the Deployment, whose pods are simulated.
func (r *reader) install() {
	take := func(page string, parts ...string) {
		r.Helper()
		for _, b := range r.blocks {
			if !b.done && b.page == page && b.why == "" && b.elsewhere == "" && contains(b.text, parts) {
				if !r.Run(b.String(), func(t *testing.T) { r.in(t).try(b) }) {
					r.FailNow() // the next ones need it
				}
				return
			}
		}
		r.Fatalf("%s has no more blocks with %q", page, parts)
	}
	take("docs/start-admin.md", "RELEASE=")
	take("docs/install.md", "RELEASE=")
	take("docs/install.md", "apply --server-side -k config/default\n")
	take("docs/install.md", "kubectl trellis version")
	take("docs/migrate.md", "# definitions first")
	take("docs/migrate.md", "--force-conflicts -k config/default")
	take("docs/troubleshooting.md", "kubectl delete validatingwebhookconfiguration")
	r.run("kubectl apply --server-side -k config/default") // the page reports it
	take("docs/install.md", "kubectl delete -k config/default-no-crds")
	r.run("kubectl delete -k config/crd")
	take("docs/install.md", "helm install")
}

func contains(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
