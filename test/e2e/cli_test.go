// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/explain"
	trellismaps "github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// kubectlTrellis runs the plugin on the world's cluster and namespace.
func (w *world) kubectlTrellis(code int, args ...string) (stdout, stderr string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "../../bin/kubectl-trellis", append(args, "--kubeconfig", w.cluster.Kubeconfig(), "-n", w.name)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		w.t.Fatalf("kubectl trellis %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errOut)
	}
	return out.String(), errOut.String()
}

// asJSON runs the plugin with -o json.
func asJSON[T any](w *world, code int, args ...string) T {
	w.t.Helper()
	out, _ := w.kubectlTrellis(code, append(args, "-o", "json")...)
	var into T
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&into); err != nil {
		w.t.Fatalf("%v in %s", err, out)
	}
	return into
}

// manifest writes an object into a file.
func (w *world) manifest(o client.Object, kind string) string {
	w.t.Helper()
	gvk, err := w.c.GroupVersionKindFor(o)
	if err != nil {
		w.t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	data, err := yaml.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.t.TempDir(), kind+".yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) says(text string, parts ...string) {
	w.t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, part := range parts {
		if !strings.Contains(flat, part) {
			w.t.Errorf("got\n%s\nwant %q in it", text, part)
		}
	}
}

// plannedNodes are the nodes of each replica of a plan.
func plannedNodes(g plan.Outcome) map[string][]string {
	out := map[string][]string{}
	for _, r := range g.Replicas {
		name := fmt.Sprintf("%s-%d", r.Component, r.Replica)
		for _, pod := range r.Pods {
			out[name] = append(out[name], pod.Node)
		}
		slices.Sort(out[name])
	}
	return out
}

// boundNodes are the nodes that the pods of a deployment are bound to, by replica.
func (w *world) boundNodes(graph, service string) map[string][]string {
	out := map[string][]string{}
	for ordinal, pods := range w.replicasOf(service) {
		for _, pod := range pods {
			if strings.HasPrefix(pod.Name, graph+"-") {
				name := fmt.Sprintf("%s-%d", service, ordinal)
				out[name] = append(out[name], pod.Spec.NodeName)
				slices.Sort(out[name])
			}
		}
	}
	return out
}

// mappedNodes are the nodes on which the map draws the pods of a deployment, by replica.
func (w *world) mappedNodes(graph string) map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	var visit func(*tree.Domain)
	visit = func(d *tree.Domain) {
		for _, pod := range d.Pods {
			if d.Node && pod.Namespace == w.name && pod.Graph == graph {
				name := fmt.Sprintf("%s-%d", pod.Component, pod.Replica)
				out[name] = append(out[name], d.Name)
				slices.Sort(out[name])
			}
		}
		for _, child := range d.Children {
			visit(child)
		}
	}
	for _, t := range asJSON[trellismaps.Map](w, 0, "map", "--topology", w.name).Trees {
		visit(t.Cluster)
	}
	return out
}

func (w *world) same(what string, want, got map[string][]string) {
	w.t.Helper()
	if !maps.EqualFunc(want, got, slices.Equal) {
		w.t.Errorf("%s: the plan was %v, the operator did %v", what, want, got)
	}
}

var _ = Describe("kubectl trellis", Label("cli"), func() {
	// A gang waits: a cordon in one rack, a pod of another client in the other. Explain names the cordon as the easier one; plan places the
	// gang with the uncordoned host, and the operator then does the same.
	It("explains why a gang waits, and plans what the operator then does", func(ctx SpecContext) {
		w := newWorld(ctx, "plugin", racks(2, 8, "a/r0", "a/r1")...)
		w.occupy("train", "a-r0-1", 1)
		node := get(w, &corev1.Node{}, "", w.node("a-r1-0"))
		cordoned := node.DeepCopy()
		cordoned.Spec.Unschedulable = true
		Expect(w.c.Patch(ctx, cordoned, client.MergeFrom(node))).To(Succeed())
		g := w.graphOf("g", "", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)})
		file := w.manifest(g.DeepCopy(), "g")
		before := asJSON[plan.Plans](w, 2, "plan", "--cluster", "-f", file)
		w.create(g)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "needs 2 pods x 8 nvidia.com/gpu in one rack")
		w.says(before.Graphs[0].Reasons[0].Message, "needs 2 pods x 8 nvidia.com/gpu in one rack; a/r1 holds 1 of 2 (1 host cordoned)")

		for _, target := range []string{"dgd/g", "sg/g-worker", "pod/g-worker-0-1"} {
			text, _ := w.kubectlTrellis(0, "explain", target)
			w.says(text, "Worker-0 gated", "Worker-0: InsufficientCapacity: needs 2 pods x 8 nvidia.com/gpu in one rack", "a/r0 2 15 1 of 2 1 short of GPUs",
				"Easiest to free is a/r1", w.node("a-r1-0")+" cordoned", "Worker-0 fits in a/r1 after these changes.", "kubectl uncordon "+w.node("a-r1-0"), "The operator reports the same.")
		}
		why := asJSON[explain.Explanation](w, 0, "explain", "dgd/g")
		Expect(why.Result.Agrees).To(BeTrue())
		Expect(why.Waiting).To(HaveLen(1))
		Expect(why.Waiting[0].Closest.Holds).To(BeEquivalentTo(1))
		Expect(why.Waiting[0].Freeing).To(HaveLen(1))

		cordoned.Spec.Unschedulable = false
		cordoned.ManagedFields = nil
		wanted := asJSON[plan.Plans](w, 0, "plan", "--cluster", "dgd/g", "-f", w.manifest(cordoned.DeepCopy(), "node"))
		Expect(w.c.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":null}}`)))).To(Succeed())
		w.ready("g")
		w.same("uncordoned", map[string][]string{"Worker-0": plannedNodes(wanted.Graphs[0])["Worker-0"]}, w.boundNodes("g", "Worker"))
		text, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(text, "successful", "Worker-0 running", "a/r1", "The operator reports the same: every packed replica is placed.")

		running := asJSON[plan.Plans](w, 2, "plan", "--cluster", "-f", w.manifest(w.graphOf("g", "", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}), "g"))
		reasons := running.Graphs[0].Reasons
		Expect(reasons).To(HaveLen(1), "one replica more than there is capacity for")
		Expect(reasons[0].Replica).To(BeEquivalentTo(1))
		w.same("running members", map[string][]string{"Worker-0": plannedNodes(running.Graphs[0])["Worker-0"]}, w.boundNodes("g", "Worker"))
	}, SpecTimeout(suite.Timeout()))

	// Several deployments on a cluster with capacity: each goes where its plan said, to the score.
	It("plans where each of several deployments goes, to the score", func(ctx SpecContext) {
		w := newWorld(ctx, "plan-happens", append(racks(4, 8, "a/r0", "a/r1", "a/r2"), racks(2, 8, "b/r0", "b/r1", "b/r2")...)...)
		w.occupy("train", "a-r0-2", 3)
		for _, g := range []*nvidiav1alpha1.DynamoGraphDeployment{
			w.graphOf("first", "zone", services{"Worker": worker(2, 2, 8, "rack")}),
			w.graphOf("second", "rack", services{"Prefill": worker(1, 2, 8, ""), "Decode": worker(2, 1, 4, "")}),
			w.graphOf("third", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Small": worker(3, 1, 2, "")}),
		} {
			want := asJSON[plan.Plans](w, 0, "plan", "--cluster", "-f", w.manifest(g.DeepCopy(), g.Name)).Graphs[0]
			w.create(g)
			w.ready(g.Name)
			placement := w.dgd(g.Name).Status.Placement
			Expect(placement).NotTo(BeNil())
			Expect(placement.Domain).To(Equal(strings.TrimSuffix(want.Domain["zone"]+"/"+want.Domain["rack"], "/")), "the domain of %s", g.Name)
			Expect(placement.Score).To(HaveValue(Equal(want.Score)), "the score of %s", g.Name)
			for _, r := range want.Replicas {
				pods := slices.DeleteFunc(w.replicasOf(r.Component)[int32(r.Replica)], func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, g.Name+"-") })
				Expect(pods).To(w.bePlacedIn("rack", r.Domain["zone"]+"/"+r.Domain["rack"]), "%s: %s-%d", g.Name, r.Component, r.Replica)
			}
			bound := map[string][]string{}
			for component := range g.Spec.Services {
				maps.Copy(bound, w.boundNodes(g.Name, component))
			}
			w.same("hosts of "+g.Name, plannedNodes(want), bound)
			w.same("hosts on the map of "+g.Name, w.mappedNodes(g.Name), bound)
		}
	}, SpecTimeout(suite.Timeout()))

	// A user who may see one namespace gets what there is to see in it, and the name of the right that would show more.
	It("shows a user what may be seen, and names the right that would show more", func(ctx SpecContext) {
		w := newWorld(ctx, "plugin-rights", racks(2, 8, "a/r0")...)
		w.occupy("train", "a-r0-1", 8)
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 2, 8, "rack")}))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "1 of 2")
		w.create(&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "viewer"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamographdeployments"}, Verbs: []string{"get", "list"}},
				{APIGroups: []string{"trellis.dev"}, Resources: []string{"scalinggroups"}, Verbs: []string{"get", "list"}},
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
			},
		})
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "viewer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
		})
		w.until("ann sees the deployment", func() error {
			return exec.CommandContext(ctx, "../../bin/kubectl-trellis", "explain", "dgd/g", "--as", "ann", "--kubeconfig", w.cluster.Kubeconfig(), "-n", w.name).Run()
		})
		text, _ := w.kubectlTrellis(0, "explain", "dgd/g", "--as", "ann")
		w.says(text, "Worker-0 gated", "InsufficientCapacity", "1 of 2", "You may not list nodes, list pods,", "So nothing can be planned again", "You may not list events in this namespace.")
		text, _ = w.kubectlTrellis(0, "tree", "dgd", "g", "--as", "ann")
		w.says(text, "Worker-0 (leader, worker 1)", "InsufficientCapacity", "You may not list nodes: domains come from what the pods were pinned to")
		drawn := asJSON[trellismaps.Map](w, 0, "map", "--as", "ann")
		Expect(drawn.Graphs).To(HaveLen(1))
		Expect(drawn.Waiting).To(HaveLen(1))
		Expect(drawn.Waiting[0].Reason).To(Equal("InsufficientCapacity"))
		Expect(drawn.Notes[0]).To(HavePrefix("You may not list nodes"))
		_, stderr := w.kubectlTrellis(1, "plan", "--cluster", "dgd/g", "--as", "ann")
		w.says(stderr, "Error: you may not list nodes, list pods,", "ask for a ClusterRole with these rights")
		_, stderr = w.kubectlTrellis(1, "explain", "dgd/h", "--as", "ann")
		w.says(stderr, "DynamoGraphDeployment plugin-rights/h not found; there are: g")
		_, stderr = w.kubectlTrellis(1, "explain", "dgd/h", "--as", "joe")
		w.says(stderr, `User "joe" cannot get resource "dynamographdeployments"`)
	}, SpecTimeout(suite.Timeout()))
})
