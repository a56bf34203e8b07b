// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	cliversion "github.com/trellis-k8s/trellis/internal/cli/version"
	"github.com/trellis-k8s/trellis/internal/version"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// TestRelease builds a release of HEAD like make release, and uses it like users. It compiles for seven platforms: make test-release.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for all platforms and starts a control plane; make test-release runs it")
	}
	released := chartVersion(t)
	out := t.TempDir()
	if err := build(t.Context(), options{repository: root, version: released, out: out, withoutEvidence: true}, t.Logf); err != nil {
		t.Fatal(err)
	}
	t.Run("two builds are the same", func(t *testing.T) { checkSecondBuild(t, out, released) })
	t.Run("checksums", func(t *testing.T) {
		if listed, err := run(t.Context(), out, nil, "sha256sum", "--check", "--strict", "checksums.txt"); err != nil {
			t.Error(listed, err)
		}
	})
	t.Run("krew installs every archive", func(t *testing.T) {
		putOnPath(t)
		checkWithKrew(t, out)
	})
	t.Run("bills of materials", func(t *testing.T) {
		for program, least := range map[string]int{manager: 50, plugin: 50} {
			bom := readSBOM(t, filepath.Join(out, program+"_"+released+"_sbom.cdx.json"))
			if got := len(*bom.Components); got < least {
				t.Errorf("%s: %d components", program, got)
			}
		}
	})
	t.Run("the image runs in a cluster", func(t *testing.T) { checkImageRuns(t, out, released) })
}

// checkSecondBuild builds again in another folder and compares.
func checkSecondBuild(t *testing.T, first, released string) {
	second := t.TempDir()
	if err := build(t.Context(), options{repository: root, version: released, out: second, withoutEvidence: true}, t.Logf); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests(t, first), digests(t, second)); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
}

func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f.name] = fmt.Sprintf("%x", sha256.Sum256(f.data))
	}
	return out
}

// putOnPath puts programs that krew calls on the PATH: kubectl, which finds krew as its plugin.
func putOnPath(t *testing.T) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test-release")
	}
	dir := t.TempDir()
	if _, err := run(t.Context(), ".", nil, "go", "build", "-o", filepath.Join(dir, "kubectl-krew"), "sigs.k8s.io/krew/cmd/krew"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{dir, assets, os.Getenv("PATH")}, string(os.PathListSeparator)))
}

// checkImageRuns pushes the image, pulls it by its digest, unpacks its layers, and starts this platform's binary in a cluster with
// install.yaml, with the arguments of its Deployment.
func checkImageRuns(t *testing.T, out, released string) {
	pushed, err := push(t.Context(), filepath.Join(out, manager), startRegistry(t)+"/trellis-manager:"+released)
	if err != nil {
		t.Fatal(err)
	}
	images := pull(t, pushed)
	head, err := run(t.Context(), root, nil, "git", "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	commit, _, _ := strings.Cut(head, " ")
	for _, p := range imagePlatforms {
		checkStatic(t, p, unpack(t, images[p.String()])[manager].data)
	}
	image := images["linux/"+runtime.GOARCH]
	if runtime.GOOS != "linux" || image == nil {
		t.Skipf("there is no image for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	created, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	checkImages(t, images, released, created.Created.Time)
	files := t.TempDir()
	for name, f := range unpack(t, image) {
		if err := os.WriteFile(filepath.Join(files, name), f.data, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(files, manager)
	said, err := run(t.Context(), files, nil, program, "--version")
	if want := fmt.Sprintf("trellis-manager version %s (commit %s, %s, linux/%s)", released, commit[:12], runtime.Version(), runtime.GOARCH); err != nil || said != want {
		t.Errorf("%q (%v), want %q", said, err, want)
	}
	cluster := startSandbox(t, out, program)
	want := fmt.Sprintf("trellis_build_info{goversion=%q,revision=%q,version=%q} 1\n", runtime.Version(), commit, released)
	reader, err := cluster.NewMetricsReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if metrics, err := reader.Read(t.Context(), cluster.ManagerMetrics(sandbox.DefaultManager)); err != nil || !strings.Contains(metrics, want) {
		t.Error(err)
		t.Errorf("the metrics lack %s", want)
	}
	checkPluginVersion(t, out, cluster, released, commit)
}

// checkStatic fails the test if a program needs a loader or is for another processor.
func checkStatic(t *testing.T, p platform, program []byte) {
	t.Helper()
	parsed, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.arch]; parsed.Machine != want {
		t.Errorf("the program for %s is for %s", p, parsed.Machine)
	}
	for _, segment := range parsed.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("the program for %s needs a loader, and the image has none", p)
		}
	}
}

// startSandbox starts a control plane, applies install.yaml and runs the manager until it is ready.
func startSandbox(t *testing.T, out, program string) *sandbox.Sandbox {
	t.Helper()
	manifests := t.TempDir()
	text, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"install.yaml": text, "kustomization.yaml": []byte("resources: [install.yaml]\n")} {
		if err := os.WriteFile(filepath.Join(manifests, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "rel") // short, because of the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Down(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	cluster, err := sandbox.Up(t.Context(), sandbox.Options{
		Name: "release", Dir: dir, Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1}, Operator: true, Manifests: manifests, ManagerBinary: program,
	})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// checkPluginVersion unpacks the plugin of this platform and runs its version command: without the operator's Deployment, which a sandbox
// omits, and with it.
func checkPluginVersion(t *testing.T, out string, cluster *sandbox.Sandbox, released, commit string) {
	packed, err := os.Open(filepath.Join(out, fmt.Sprintf("%s_%s_linux_%s.tar.gz", plugin, released, runtime.GOARCH)))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	files, err := readTarGz(packed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(kubeconfig string) cliversion.Versions {
		t.Helper()
		said, err := run(t.Context(), dir, nil, filepath.Join(dir, plugin), "version", "-o", "json", "--kubeconfig", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		var report cliversion.Versions
		if err := json.Unmarshal([]byte(said), &report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	want := cliversion.Versions{
		Client:    version.Info{Version: released, Revision: commit, GoVersion: runtime.Version(), Platform: "linux/" + runtime.GOARCH},
		Operators: []cliversion.Operator{}, Problem: "the cluster has no Deployment of it",
	}
	if diff := cmp.Diff(want, ask(cluster.Kubeconfig())); diff != "" {
		t.Errorf("without a Deployment: -want +got:\n%s", diff)
	}
	apply := exec.CommandContext(t.Context(), filepath.Join(cluster.Assets(), "kubectl"), "apply", "--server-side", "--force-conflicts",
		"--selector=app.kubernetes.io/component=manager", "--filename="+filepath.Join(out, "install.yaml"), "--kubeconfig="+cluster.Kubeconfig())
	if output, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	want.Problem, want.Operators = "", []cliversion.Operator{{
		Namespace: "trellis-system", Name: "trellis-controller-manager", Image: imageName + ":" + released, Version: released,
	}}
	if diff := cmp.Diff(want, ask(cluster.Kubeconfig())); diff != "" {
		t.Errorf("with a Deployment: -want +got:\n%s", diff)
	}
	if unreachable := ask(os.DevNull); unreachable.Problem == "" || unreachable.Client != want.Client {
		t.Errorf("without a cluster: %+v", unreachable)
	}
}
