// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/pages"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// onlyInBeta has a sidecar of which v1alpha1 can say less than is set here.
const onlyInBeta = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: newer, namespace: back}
spec:
  components:
  - name: Frontend
    type: frontend
    replicas: 1
    frontendSidecar: side
    podTemplate:
      spec:
        nodeSelector: {e2e.trellis.dev/pool: back}
        containers:
        - {name: main, image: "example.com/frontend:1"}
        - {name: side, image: "example.com/side:1", ports: [{name: side, containerPort: 9999}]}
`

var _ = Describe("The way back to a release that knows v1alpha1 only", func() {
	// the way of docs/migrate.md back to a release that knows v1alpha1 only, for commit 886ffe1. Today's operator rewrites
	// everything as v1alpha1, the definitions of that commit are applied, and every object is whole. With TRELLIS_TESTS=all the operator of that commit is
	// built from the repository's history, and takes everything over.
	It("keeps every object whole, and the earlier operator takes over", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "back")
		e.restartGarbageCollector(ctx)
		w := e.newWorld(ctx, "back", racks(2, 8, "a/r0", "a/r1")...)
		w.garbageCollectorWatches()
		w.create(w.graphOf("packed", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": withAdapter(frontend(1))}))
		w.applyText(onlyInBeta)
		w.ready("packed")
		w.ready("newer")
		before, pods := w.asV1alpha1("packed", "newer"), w.uids()

		By("the definitions are refused as long as something may be stored as v1beta1")
		Expect(w.applyReleased()).To(MatchError(ContainSubstring("storedVersions")))

		By("today's operator rewrites everything as v1alpha1")
		w.runBlock("migrate.md", `"path":"/spec/versions/0/storage"`)
		for _, name := range convert.Definitions {
			w.until("everything is stored as v1alpha1", func() error {
				if crd := get(w, &apiextensionsv1.CustomResourceDefinition{}, "", name); !slices.Equal(crd.Status.StoredVersions, []string{"v1alpha1"}) {
					return fmt.Errorf("%s: %v", name, crd.Status.StoredVersions)
				}
				return nil
			})
		}
		w.storedAs("v1alpha1", 2, 1)

		By("the earlier definitions are applied: every object is as it was, and no pod is touched")
		e.stopOperator(ctx)
		w.removeHooks()
		w.runBlock("migrate.md", `"op":"remove","path":"/spec/versions/1"`)
		w.must(w.applyReleased())
		w.until("v1beta1 is served no more", func() error {
			newer := w.objectsIn(onlyInBeta)[0]
			if err := w.c.Get(ctx, client.ObjectKeyFromObject(newer), newer); err == nil {
				return fmt.Errorf("it is")
			}
			return nil
		})
		Expect(cmp.Diff(before, w.asV1alpha1("packed", "newer"))).To(BeEmpty(), "objects (-before, +after)")
		w.samePods(pods, "")
		w.runEarlier()
	}, SpecTimeout(suite.Timeout()))
})

// restartGarbageCollector has the garbage collector know the definitions before anything of them exists. One that was started before them
// knows them after 30 s. Until then it fails to find the owners of scaling groups, and pauses for longer each time: it may ask for an owner by
// a version that was just removed, and take a deployment for gone.
func (e environment) restartGarbageCollector(ctx context.Context) {
	GinkgoHelper()
	Expect(e.cluster.StopComponent(ctx, "kube-controller-manager")).To(Succeed())
	Expect(e.cluster.StartComponent(ctx, "kube-controller-manager")).To(Succeed())
}

// garbageCollectorWatches waits until the garbage collector has deployments in its graph. A dependent is deleted only when it is in the graph.
func (w *world) garbageCollectorWatches() {
	w.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "marker"}}
	w.create(owner)
	dependent := w.graphOf("marker", "zone", services{"Worker": worker(0, 1, 8, "rack")})
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	w.create(dependent)
	w.must(w.c.Delete(w.t.Context(), owner))
	w.isGone(dependent, "marker")
}

// runBlock runs the commands of a page that contain a text.
func (w *world) runBlock(page, contains string) {
	w.t.Helper()
	commands, err := pages.Commands(filepath.Join("..", "..", "docs", page), contains)
	w.must(err)
	command := exec.CommandContext(w.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig(), "PATH="+w.cluster.Assets()+":"+os.Getenv("PATH"), "KUBECACHEDIR="+w.t.TempDir())
	if out, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
}

// asV1alpha1 returns the annotations and specs of deployments, and the spec of the adapter.
func (w *world) asV1alpha1(names ...string) map[string]any {
	w.t.Helper()
	out := map[string]any{}
	read := func(kind, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("nvidia.com/v1alpha1")
		u.SetKind(kind)
		w.until("it can be read", func() error { return w.c.Get(w.t.Context(), key(w.name, name), u) })
		return u
	}
	for _, name := range names {
		u := read("DynamoGraphDeployment", name)
		out[name], out[name+" annotations"] = u.Object["spec"], u.GetAnnotations()
	}
	out["adapter"] = read("DynamoGraphDeploymentScalingAdapter", "packed-frontend").Object["spec"]
	return out
}

// applyReleased applies the definitions of 886ffe1 as kubectl apply --server-side --force-conflicts does.
func (w *world) applyReleased() error {
	crds, err := stored.ReleasedDefinitions()
	w.must(err)
	for _, crd := range crds {
		raw, err := json.Marshal(crd)
		w.must(err)
		u := &unstructured.Unstructured{}
		w.must(u.UnmarshalJSON(raw))
		unstructured.RemoveNestedField(u.Object, "status")
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		if err := w.c.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("trellis-sandbox"), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
	}
	return nil
}

// runEarlier has the operator of 886ffe1 take over, where it can be built.
func (w *world) runEarlier() {
	w.t.Helper()
	if os.Getenv("TRELLIS_TESTS") != "all" {
		w.t.Log("the operator of that commit is run with TRELLIS_TESTS=all")
		return
	}
	if err := exec.CommandContext(w.t.Context(), "git", "cat-file", "-e", "886ffe1^{commit}").Run(); err != nil {
		w.t.Log("the operator of that commit is not run: this clone has no commit 886ffe1 (git fetch --unshallow)")
		return
	}
	dir := w.t.TempDir()
	for _, command := range []string{
		"git archive 886ffe1 | tar -x -C " + dir,
		"cd " + dir + " && go build -trimpath -o manager ./cmd/trellis-manager",
	} {
		build := exec.CommandContext(w.t.Context(), "bash", "-euo", "pipefail", "-c", command)
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			w.t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	w.must(err)
	ctx, stop := context.WithCancel(w.t.Context())
	operator := exec.CommandContext(ctx, filepath.Join(dir, "manager"), "--kubeconfig="+w.cluster.Kubeconfig(), "--namespace=trellis-system",
		"--webhooks=false", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0")
	operator.Stdout, operator.Stderr = log, log
	w.must(operator.Start())
	w.t.Cleanup(func() {
		stop()
		_ = operator.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && w.t.Failed() {
			w.t.Logf("the operator of 886ffe1:\n%s", text[max(0, len(text)-8000):])
		}
	})
	w.t.Log("the earlier operator takes over: its pods run, and it follows the adapter")
	for _, name := range []string{"packed", "newer"} { // that operator writes no GraphPlacement
		w.until(name+" is Ready", func() error { return w.isReady(name) })
	}
	w.mustKubectl("scale", "dgdsa/packed-frontend", "--replicas=2")
	w.until("the adapter's number is followed", func() error {
		n := 0
		for _, pod := range w.all() {
			if strings.HasPrefix(pod.Name, "packed-frontend-") && pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d pods run", n)
		}
		return nil
	})
	w.until("packed is Ready", func() error { return w.isReady("packed") })
}
