// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readme runs the commands of the documentation on a sandbox, as they stand there, and compares the output that the README shows.
package readme

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// reader is who follows the documentation: the blocks, and the shell and the cluster they are typed into.
type reader struct {
	*testing.T
	blocks []*block
	env    []string
	// folder is where commands run: it has what a clone has, and the files that the documentation speaks of.
	folder string
}

// in is the same reader in a subtest.
func (r *reader) in(t *testing.T) *reader {
	inner := *r
	inner.T = t
	return &inner
}

// block returns the first block of a page with all these parts. It counts as run.
func (r *reader) block(page string, parts ...string) string {
	r.Helper()
	at := slices.IndexFunc(r.blocks, func(b *block) bool {
		return b.page == page && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(b.text, part) })
	})
	if at < 0 {
		r.Fatalf("%s has no block with %q", page, parts)
	}
	r.blocks[at].done = true
	return r.blocks[at].text
}

// shell runs a script as a reader would.
func (r *reader) shell(script string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(r.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env, cmd.Dir = r.env, r.folder
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// run runs a script that has to succeed, and returns what it prints.
func (r *reader) run(script string) string {
	r.Helper()
	out, errs, err := r.shell(script)
	if err != nil {
		now, why, _ := r.shell("kubectl get ctopo,dgd,sg,pods -o wide") // says why it cannot
		r.Fatalf("%s\n%v: %s%s\n%s%s", script, err, out, errs, now, why)
	}
	return out
}

// write writes a file into the reader's folder.
func (r *reader) write(name, content string) {
	r.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
}

// hosts are hosts of 8 GPUs, by default without labels.
func hosts(t *testing.T, from, to int, labels map[string]string) string {
	t.Helper()
	list := corev1.NodeList{}
	list.APIVersion, list.Kind = "v1", "NodeList"
	for i := from; i < to; i++ {
		node := simulated.NewNode(fmt.Sprintf("host-%d", i), 8, labels)
		node.APIVersion, node.Kind = "v1", "Node"
		list.Items = append(list.Items, node)
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// clone fills the reader's folder with what a clone has, as far as commands need it.
func (r *reader) clone() {
	r.Helper()
	clone, err := filepath.Abs(root)
	if err != nil {
		r.Fatal(err)
	}
	for _, name := range []string{"bin", "charts", "config/crd", "config/grafana"} {
		link := filepath.Join(r.folder, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			r.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(clone, name), link); err != nil {
			r.Fatal(err)
		}
	}
	for _, name := range []string{"config/default", "config/default-no-crds"} {
		r.write(name+"/kustomization.yaml", "resources: [all.yaml]\n")
		r.write(name+"/all.yaml", r.rendered(filepath.Join(clone, name)))
	}
	r.write("tools/helm", fmt.Sprintf("#!/bin/sh\nexec go -C %s tool -modfile=hack/tools/go.mod helm \"$@\"\n", clone))
	if err := os.Chmod(filepath.Join(r.folder, "tools", "helm"), 0o755); err != nil { //nolint:gosec // a program
		r.Fatal(err)
	}
	r.write("release/install.yaml", r.rendered(filepath.Join(clone, "config/default")))
	r.serveRelease(filepath.Join(r.folder, "release"))
}

// serveRelease serves the files of a folder where commands download a release.
func (r *reader) serveRelease(folder string) {
	server := httptest.NewServer(http.StripPrefix("/release/", http.FileServer(http.Dir(folder))))
	r.Cleanup(server.Close)
	r.env = append(r.env, "RELEASE="+server.URL+"/release")
}

// leaderElection is a line of the operator's arguments.
var leaderElection = regexp.MustCompile(`(?m)^ *- --leader-elect\n`)

// rendered are the manifests of a kustomization, as they agree with what is installed: for all webhooks they name the port at which the sandbox's operator
// serves them, which is no Service's, and that operator elects no leader.
func (r *reader) rendered(folder string) string {
	r.Helper()
	port, err := strconv.Atoi(r.run("kubectl get mutatingwebhookconfigurations -o jsonpath='{.items[0].webhooks[0].clientConfig.service.port}'"))
	if err != nil {
		r.Fatal(err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // as kubectl apply -k has them
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		r.Fatal(err)
	}
	var all strings.Builder
	for _, resource := range built.Resources() {
		object, err := resource.Map()
		if err != nil {
			r.Fatal(err)
		}
		sandbox.SetServicePort(&unstructured.Unstructured{Object: object}, port)
		text, err := yaml.Marshal(object)
		if err != nil {
			r.Fatal(err)
		}
		all.WriteString("---\n" + leaderElection.ReplaceAllString(string(text), ""))
	}
	return all.String()
}

// start brings a cluster of eight hosts without labels up, and a folder to type in. Operator and plugin are those of a release, or of this clone
// without one.
func start(t *testing.T, blocks []*block, from *release) *reader {
	t.Helper()
	dir, err := os.MkdirTemp("", "tour") // short, for a socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &reader{T: t, folder: filepath.Join(dir, "clone"), blocks: blocks}
	r.write("nodes.yaml", hosts(t, 0, 8, nil))
	options := sandbox.Options{Name: "tour", Dir: filepath.Join(dir, "s"), NodesFile: filepath.Join(r.folder, "nodes.yaml"), Operator: true}
	r.write("tools/.keep", "")
	plugin := filepath.Join(r.folder, "tools", "kubectl-trellis")
	if from != nil {
		options.Manifests, options.ManagerBinary = from.kustomization(r), from.manager
		err = os.Symlink(from.plugin, plugin)
	} else {
		err = buildPlugin(t, plugin)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	home := filepath.Join(r.folder, "home")
	path := []string{s.Assets(), filepath.Join(r.folder, "tools"), filepath.Join(home, ".local", "bin"), os.Getenv("PATH")}
	r.env = append(goEnvironment(t), "KUBECONFIG="+s.Kubeconfig(), "HOME="+home, "KUBE_EDITOR=true",
		"PATH="+strings.Join(path, string(os.PathListSeparator)))
	return r
}

// kustomization is a folder whose only resource is the manifest of the release.
func (from *release) kustomization(r *reader) string {
	r.Helper()
	manifest, err := os.ReadFile(filepath.Join(from.folder, "install.yaml"))
	if err != nil {
		r.Fatal(err)
	}
	r.write("manifests/kustomization.yaml", "resources: [install.yaml]\n")
	r.write("manifests/install.yaml", string(manifest))
	return filepath.Join(r.folder, "manifests")
}

func buildPlugin(t *testing.T, file string) error {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./cmd/kubectl-trellis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the plugin: %w: %s", err, out)
	}
	return nil
}

// goEnvironment is the environment with the folders that go finds by HOME.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	folders := strings.Fields(string(out))
	if err != nil || len(folders) != 3 {
		t.Fatal(string(out), err)
	}
	return append(os.Environ(), "GOCACHE="+folders[0], "GOMODCACHE="+folders[1], "GOPATH="+folders[2])
}
