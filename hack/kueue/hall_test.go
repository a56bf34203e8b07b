// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	zoneKey = "topology.kubernetes.io/zone"
	rackKey = "topology.trellis.dev/rack"
	poolKey = "kueue.trellis.dev/pool"
	// queueName is the LocalQueue of each team.
	queueName = "q"
	// hostsPerRack is the number of hosts of a rack, with gpusPerHost each.
	hostsPerRack, gpusPerHost = 2, 8
)

type services = graphs.Components

// hall is the hardware of a spec: nodes, with the flavor and the cohort of their quota.
type hall struct {
	// ctx ends with the spec.
	ctx   context.Context
	name  string
	teams []*team
}

var halls int

// newHall creates racks of two hosts with 8 GPUs each.
func newHall(ctx context.Context, racks int) *hall {
	GinkgoHelper()
	halls++
	h := &hall{ctx: ctx, name: fmt.Sprintf("hall-%d", halls)}
	DeferCleanup(func(ctx SpecContext) error {
		return api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolKey: h.name})
	}, NodeTimeout(suite.Patience()))
	for rack := range racks {
		for host := range hostsPerRack {
			name := fmt.Sprintf("%s-r%d-%d", h.name, rack, host)
			node := simulated.NewNode(name, gpusPerHost, map[string]string{zoneKey: h.name, rackKey: fmt.Sprint("r", rack), poolKey: h.name})
			Expect(cluster.AddNodes(ctx, node)).To(Succeed(), "adding node %s", name)
		}
	}
	h.forSpec(&grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: h.name},
		Spec: grovev1alpha1.ClusterTopologySpec{
			NodeSelector: map[string]string{poolKey: h.name},
			Levels:       []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: zoneKey}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname}},
		},
	})
	h.forSpec(h.flavor(h.name, map[string]any{poolKey: h.name}))
	return h
}

// kueueObject returns an object of Kueue's API.
func kueueObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "spec": spec}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func (h *hall) flavor(name string, labels map[string]any) *unstructured.Unstructured {
	return kueueObject("ResourceFlavor", "", name, map[string]any{"nodeLabels": labels})
}

// forSpec creates an object and deletes it when the spec ends.
func (h *hall) forSpec(o client.Object) {
	GinkgoHelper()
	h.create(o)
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(api.Delete(ctx, o)) }, NodeTimeout(suite.Patience()))
}

// create creates an object. It retries, because the webhooks of Kueue may not be reachable yet after a start.
func (h *hall) create(o client.Object) {
	GinkgoHelper()
	h.until(fmt.Sprintf("%T %s is created", o, o.GetName()), func() error {
		err := api.Create(h.ctx, o)
		if apierrors.IsInvalid(err) {
			return StopTrying("the API server refuses it").Wrap(err)
		}
		return err
	})
}

// until waits until look returns no error; the last error describes the missing state.
func (h *hall) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(h.ctx, look).Should(Succeed(), "waiting until "+what)
}

func (h *hall) answered(call func() error) {
	GinkgoHelper()
	suite.Answered(h.ctx, call)
}

// priority creates a PriorityClass, deletes it when the spec ends, and returns its name.
func (h *hall) priority(value int32) string {
	GinkgoHelper()
	name := fmt.Sprintf("%s-%d", h.name, value)
	h.forSpec(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	return name
}

// team is a namespace with a queue that has quota for some GPUs, and borrows in the hall's cohort.
type team struct {
	*hall
	namespace string
	gpus      int64
}

// newTeam creates a team with quota for that number of GPUs. The team reclaims quota that others have borrowed, and preempts lower
// priorities within the team.
func (h *hall) newTeam(name string, gpus int64) *team {
	GinkgoHelper()
	t := &team{hall: h, namespace: h.name + "-" + name, gpus: gpus}
	h.teams = append(h.teams, t)
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}})
	DeferCleanup(func(ctx SpecContext) {
		_ = api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}})
	}, NodeTimeout(suite.Patience()))
	h.forSpec(t.clusterQueue("nvidia.com/gpu"))
	h.create(kueueObject("LocalQueue", t.namespace, queueName, map[string]any{"clusterQueue": t.namespace}))
	DeferOnFailure(t.describe, NodeTimeout(suite.Patience()))
	DeferCleanup(t.removeAll, NodeTimeout(2*suite.Patience()))
	return t
}

func (t *team) clusterQueue(resource string) *unstructured.Unstructured {
	return kueueObject("ClusterQueue", "", t.namespace, map[string]any{
		"namespaceSelector": map[string]any{}, "cohortName": t.name,
		"preemption": map[string]any{"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
		"resourceGroups": []any{map[string]any{
			"coveredResources": []any{resource},
			"flavors": []any{map[string]any{"name": t.name, "resources": []any{
				map[string]any{"name": resource, "nominalQuota": t.gpus},
			}}},
		}},
	})
}

// quotaIs sets the team's quota.
func (t *team) quotaIs(gpus int64) {
	GinkgoHelper()
	change := fmt.Sprintf(`[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"%d"}]`, gpus)
	t.answered(func() error {
		return api.Patch(t.ctx, t.clusterQueue(gpuResource), client.RawPatch(types.JSONPatchType, []byte(change)))
	})
}

// removeAll deletes the deployments, and waits until no pod, no Workload and no used quota is left.
func (t *team) removeAll(ctx SpecContext) {
	Expect(api.DeleteAllOf(ctx, &nvidiav1alpha1.DynamoGraphDeployment{}, client.InNamespace(t.namespace))).To(Succeed())
	t.ctx = ctx
	t.until("nothing is left", func() error {
		if pods := t.pods(); len(pods) > 0 {
			return fmt.Errorf("pod %s is left", pods[0].Name)
		}
		if workloads := t.workloads(); len(workloads) > 0 {
			return fmt.Errorf("Workload %s is left", workloads[0].Name)
		}
		return t.uses(0)
	})
}

// graph returns a deployment in the team's queue, packed into the hall.
func (t *team) graph(name string, of services) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": queueName}},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: t.name, PackDomain: "zone"}, Services: of,
		},
	}
}

// withPriority gives the pods of all services a PriorityClass.
func withPriority(class string, of services) services {
	for _, service := range of {
		service.ExtraPodSpec.PodSpec = &corev1.PodSpec{PriorityClassName: class}
	}
	return of
}

// patch patches a deployment.
func (t *team) patch(name, change string) {
	GinkgoHelper()
	t.answered(func() error { return api.Patch(t.ctx, t.graph(name, nil), merge(change)) })
}

func (t *team) scale(name, service string, replicas int) {
	GinkgoHelper()
	t.patch(name, fmt.Sprintf(`{"spec":{"services":{%q:{"replicas":%d}}}}`, service, replicas))
}

func (t *team) remove(name string) {
	GinkgoHelper()
	t.answered(func() error { return client.IgnoreNotFound(api.Delete(t.ctx, t.graph(name, nil))) })
}

// names returns the names of the team's deployments.
func (t *team) names() []string {
	GinkgoHelper()
	list := &nvidiav1alpha1.DynamoGraphDeploymentList{}
	t.answered(func() error { return api.List(t.ctx, list, client.InNamespace(t.namespace)) })
	var out []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out
}
