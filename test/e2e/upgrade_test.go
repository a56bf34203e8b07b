// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// earlier is a namespace as commit 886ffe1 left it in a cluster (testdata/released.yaml): two deployments, all that was made for them, and their nodes. The
// deployment "packed" has a constraint; "plain" has every kind of component, and an adapter. No one edits the file: it is what was there.
const earlier = "released"

// renderedOtherwise stands for templates that another version of the operator makes: the same pods with a variable more, and so with other
// revisions. What the operator under test would make for the same deployment differs from every pod there is.
func renderedOtherwise(objects string) string {
	for _, revision := range regexp.MustCompile(`(?m)revision: "?([0-9a-f]{10})"?$`).FindAllStringSubmatch(objects, -1) {
		objects = strings.ReplaceAll(objects, revision[1], "x"+revision[1][1:])
	}
	return regexp.MustCompile(`(?m)^( *)- name: POD_UID$`).ReplaceAllString(objects, "$1- name: OF_ANOTHER_VERSION\n$1  value: \"1\"\n$1- name: POD_UID")
}

// transferring gives the deployment "plain" a kvTransferPolicy and a constraint, as a version leaves them that places nothing by a
// policy. Its prefill replica is on two hosts, so that no decode replica has prefill in its host.
func transferring(o *unstructured.Unstructured) {
	set := func(value any, path ...string) {
		Expect(unstructured.SetNestedField(o.Object, value, path...)).To(Succeed())
	}
	switch {
	case o.GetKind() == "DynamoGraphDeployment" && o.GetName() == "plain":
		set(map[string]any{"topologyProfile": earlier}, "spec", "topologyConstraint")
		set(map[string]any{"preferredPackDomain": "rack"}, "spec", "services", "Prefill", "topologyConstraint")
		set(map[string]any{"clusterTopologyName": earlier, "domain": "host", "enforcement": "required"},
			"spec", "experimental", "kvTransferPolicy")
	case o.GetKind() == "ScalingGroup" && o.GetLabels()[render.LabelGraph] == "plain":
		set(map[string]any{
			"profile": earlier, "nodeSelector": map[string]any{"e2e.trellis.dev/pool": earlier},
			"levels": []any{
				map[string]any{"domain": "zone", "key": corev1.LabelTopologyZone},
				map[string]any{"domain": "rack", "key": "topology.trellis.dev/rack"},
				map[string]any{"domain": "host", "key": corev1.LabelHostname},
			},
		}, "spec", "topology")
		if o.GetName() == "plain-prefill" {
			set("rack", "spec", "topology", "preferredPackDomain")
		}
	}
}

var _ = Describe("An upgrade of the operator", func() {
	// the operator takes over what another version of it left, and no pod is created, deleted or changed. Pods made
	// later are made from the stored templates, and a change by the user rolls what it is about, by today's templates. No other
	// spec runs meanwhile.
	It("rolls nothing, and makes later pods from the stored templates", suite.Core, Serial, func(ctx SpecContext) {
		e := shared.open(ctx)
		w := e.emptyWorld(ctx, earlier)
		DeferCleanup(w.tearDown)
		e.stopOperator(ctx)
		webhooks := w.standIn()
		w.restore(filepath.Join("testdata", "released.yaml"), transferring)
		before, revisions := w.uids(), w.revisions()
		Expect(before).To(HaveLen(12), "the restored pods")
		w.bring(webhooks)
		w.must(e.cluster.StartManager(ctx, sandbox.ManagerOptions{}))
		w.until("the API server calls the webhooks again", func() error {
			unknown := w.graphOf("probe", "moon", services{"Worker": worker(1, 1, 1, "")})
			err := w.c.Create(ctx, unknown, client.DryRunAll)
			if err == nil {
				return errors.New("a deployment with an unknown domain is accepted")
			}
			if !strings.Contains(err.Error(), "packDomain not found") {
				return fmt.Errorf("creating a deployment with an unknown domain: %w", err)
			}
			return nil
		})

		By("everything is taken over as it is")
		w.until("every group has stored its input", func() error {
			for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
				if sg.Spec.Input == nil || sg.Status.ObservedGeneration != sg.Generation {
					return fmt.Errorf("%s has not", sg.Name)
				}
			}
			return nil
		})
		w.ready("packed")
		w.ready("plain")
		w.samePods(before, "")
		Expect(w.revisions()).To(Equal(revisions))
		w.until("the condition has its new name only", func() error {
			conditions := w.dgd("packed").Status.Conditions
			if former := meta.FindStatusCondition(conditions, "EngineReady"); former != nil || !meta.IsStatusConditionTrue(conditions, nvidiav1alpha1.ConditionProviderReady) {
				return fmt.Errorf("its conditions are %+v", conditions)
			}
			return nil
		})

		By("a replica more is made from the stored template, alongside the others")
		w.scale("packed", "Frontend", 2)
		w.until("the replica is there", func() error { return count(w, "Frontend", "packed", 2) })
		w.ready("packed")
		w.samePods(before, "packed/Frontend")
		for _, pod := range w.all() {
			if pod.Labels[render.LabelGraph] == "packed" {
				Expect(pod.Spec.Containers[0].Env).To(ContainElement(HaveField("Name", "OF_ANOTHER_VERSION")), "pod %s is of the stored template", pod.Name)
			}
		}

		By("a role grows without regard to the policy, which placed nothing before")
		w.scale("plain", "Prefill", 2)
		w.until("the replica is there", func() error { return count(w, "Prefill", "plain", 4) })
		w.ready("plain")
		w.samePods(before, "packed/Frontend", "plain/Prefill")
		for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
			Expect(constraint.Transfers(sg.Spec.Topology)).To(BeFalse(), "the policy places %s", sg.Name)
		}

		By("the user changes one service: it is rolled, by today's template, and no other")
		w.patch("plain", `{"spec":{"services":{"Planner":{"extraPodMetadata":{"labels":{"a":"b"}}}}}}`)
		w.until("the service is rolled", func() error {
			for _, pod := range w.all() {
				if before[pod.UID] && pod.Labels[render.LabelComponent] == "Planner" {
					return fmt.Errorf("pod %s is an old one", pod.Name)
				}
			}
			return count(w, "Planner", "plain", 1)
		})
		w.ready("plain")
		w.samePods(before, "packed/Frontend", "plain/Prefill", "plain/Planner")
		Expect(w.revisions()["plain-planner"]).NotTo(Equal(revisions["plain-planner"]), "the revision of the changed service")
	}, SpecTimeout(suite.Timeout()))
})

// standIn has the test convert between the versions, and nothing ask for admission, until what is returned is brought back.
func (w *world) standIn() installation {
	w.t.Helper()
	was := installation{hooks: w.hooks()}
	for _, name := range convert.Definitions {
		was.definitions = append(was.definitions, *get(w, &apiextensionsv1.CustomResourceDefinition{}, "", name))
	}
	w.deleteWebhooks(w.t.Context())
	return was
}

// samePods checks that nothing happened to the pods of all components but the named ones.
func (w *world) samePods(before map[types.UID]bool, changed ...string) {
	w.t.Helper()
	for _, pod := range w.all() {
		service := pod.Labels[render.LabelGraph] + "/" + pod.Labels[render.LabelComponent]
		if !before[pod.UID] && !strings.Contains(strings.Join(changed, " "), service) {
			w.t.Errorf("pod %s of %s is new", pod.Name, service)
		}
	}
	if len(changed) == 0 || changed[0] == "" {
		if now := w.uids(); len(now) != len(before) {
			w.t.Errorf("%d pods, before %d", len(now), len(before))
		}
	}
}

func count(w *world, service, of string, want int) error {
	n := 0
	for _, pod := range w.all() {
		if pod.Labels[render.LabelComponent] == service && pod.Labels[render.LabelGraph] == of && pod.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%s of %s has %d running pods, want %d", service, of, n, want)
	}
	return nil
}

func (w *world) revisions() map[string]string {
	out := map[string]string{}
	for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
		out[sg.Name] = sg.Spec.Revision
	}
	return out
}

// restore writes a namespace as it was in another cluster, with some changes. What the API server assigns, UIDs, is replaced wherever it
// is mentioned.
func (w *world) restore(file string, changes ...func(*unstructured.Unstructured)) {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	rest := renderedOtherwise(string(raw))
	for rest != "" {
		var document string
		document, rest, _ = strings.Cut(rest, "\n---\n")
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			w.t.Fatal(err)
		}
		for _, change := range changes {
			change(o)
		}
		was := string(o.GetUID())
		w.recreate(o)
		rest = strings.ReplaceAll(rest, was, string(o.GetUID()))
	}
}

// recreate creates an object as it was, with its status. The API server assigns another UID.
func (w *world) recreate(o *unstructured.Unstructured) {
	w.t.Helper()
	status := o.Object["status"]
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetManagedFields(nil)
	delete(o.Object["metadata"].(map[string]any), "creationTimestamp")
	if o.GetKind() == "Service" {
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
		if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "None" {
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
		}
	}
	w.create(o)
	if status == nil || o.GetKind() == "Service" {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Status().Patch(w.t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		w.t.Fatalf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}
