// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("An operator that manages one namespace", func() {
	// The operator is narrowed to one namespace, with the rights that the chart then grants and no others. It does all its work there, leaves
	// the other namespace alone, though it made what runs there, and still counts that: capacity is the whole cluster's.
	It("works there with the rights of the chart, leaves the others alone, and counts their pods", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "narrow")
		w := e.newWorld(ctx, "managed", racks(2, 8, "a/r0", "a/r1")...)
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unmanaged"}})
		elsewhere := func(name string) *nvidiav1alpha1.DynamoGraphDeployment {
			dgd := w.graphOf(name, "rack", services{"Worker": worker(1, 2, 8, "")})
			dgd.Namespace = "unmanaged"
			return dgd
		}
		early := elsewhere("early")
		w.create(early)
		w.until("early is ready, as long as all namespaces are managed", func() error {
			now := get(w, &nvidiav1alpha1.DynamoGraphDeployment{}, "unmanaged", "early")
			if !meta.IsStatusConditionTrue(now.Status.Conditions, nvidiav1alpha1.ConditionReady) {
				return fmt.Errorf("status: %+v", now.Status)
			}
			return nil
		})

		e.stopOperator(ctx)
		e.narrow(ctx, w.name)
		narrowed := sandbox.ManagerOptions{Args: []string{"--watch-namespaces=" + w.name, "--leader-elect"}}
		Expect(e.cluster.StartManager(ctx, narrowed)).To(Succeed())

		By("admission is asked for every namespace; a deployment in this one is not acted on")
		late := elsewhere("late")
		w.create(late)
		wrong := elsewhere("wrong")
		wrong.Spec.TopologyConstraint.PackDomain = "moon"
		Expect(e.c.Create(ctx, wrong)).To(MatchError(ContainSubstring("packDomain not found in cluster topology")))

		By("in the managed namespace a graph is placed, alongside what runs elsewhere; the next has to wait for that")
		w.create(w.graphOf("g", "rack", services{"Worker": worker(1, 2, 8, "")}))
		w.ready("g")
		w.create(w.graphOf("waits", "rack", services{"Worker": worker(1, 2, 8, "")}))
		w.hasCondition("waits", nvidiav1alpha1.ConditionPlaced, "False", "InsufficientCapacity")
		Expect(e.c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("unmanaged"))).To(Succeed())
		w.ready("waits")

		By("a topology still gets its status and its events")
		bare := w.topology()
		bare.Name, bare.Spec.Levels[1].Key = "bare", "example.com/no-node-has-it"
		w.create(bare)
		w.until("an event reports the missing label", func() error { return hasTopologyEvent(w, bare.Name, "LabelsMissing") })

		w.leftAlone(late)
		e.logsNothingOf("forbidden", "unknown namespace")
	}, SpecTimeout(suite.Timeout()))
})

// narrow replaces the operator's rights by those that the chart grants for some namespaces.
func (e environment) narrow(ctx context.Context, namespace string) {
	GinkgoHelper()
	helm := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/go.mod", "helm", "template", "trellis", "charts/trellis",
		"--namespace=trellis-system", "--kube-version=1.30.0", `--set-json=watchNamespaces=["`+namespace+`"]`,
		"--show-only=templates/manager_role.yaml", "--show-only=templates/rbac/role_binding.yaml")
	helm.Dir = "../.."
	var stderr bytes.Buffer
	helm.Stderr = &stderr
	rendered, err := helm.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering the chart: %s", &stderr)
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		applied := e.c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm"), client.ForceOwnership)
		Expect(applied).To(Succeed(), "applying %s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	}
}

// leftAlone checks that a deployment was not changed since it was created.
func (w *world) leftAlone(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
	w.t.Helper()
	now := get(w, &nvidiav1alpha1.DynamoGraphDeployment{}, dgd.Namespace, dgd.Name)
	if now.ResourceVersion != dgd.ResourceVersion {
		w.t.Errorf("%s/%s was changed: %+v", dgd.Namespace, dgd.Name, now.Status)
	}
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := w.c.List(w.t.Context(), groups, client.InNamespace(dgd.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	if len(groups.Items) != 1 {
		w.t.Errorf("%d scaling groups in %s, want the early one only", len(groups.Items), dgd.Namespace)
	}
	pods := &corev1.PodList{}
	if err := w.c.List(w.t.Context(), pods, client.InNamespace(dgd.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	if len(pods.Items) != 0 {
		w.t.Errorf("%d pods in %s, where nobody replaces what is lost", len(pods.Items), dgd.Namespace)
	}
}

// logsNothingOf checks the manager's log since the environment began.
func (e environment) logsNothingOf(phrases ...string) {
	GinkgoHelper()
	log, err := os.ReadFile(e.cluster.LogFile(sandbox.DefaultManager))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(log)) {
		for _, phrase := range phrases {
			Expect(line).NotTo(ContainSubstring(phrase), "the operator's log")
		}
	}
}

func hasTopologyEvent(w *world, name, reason string) error {
	events := &eventsv1.EventList{}
	if err := w.c.List(w.t.Context(), events, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		return err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Regarding.Kind == "ClusterTopology" && e.Regarding.Name == name && e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("none among %d events", len(events.Items))
}
