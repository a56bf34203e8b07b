// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// pastAdmission is the label of objects that admission is not asked about in a spec that calls passAdmission.
const pastAdmission = "test.trellis.dev/past-admission"

// passAdmission leaves objects with the label pastAdmission to the schema alone: what was stored while there was no webhook.
func (s *server) passAdmission() {
	GinkgoHelper()
	selector := func(selector string) {
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/webhooks/0/objectSelector","value":`+selector+`}]`))
		for _, object := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
			for _, name := range configurations(s, object) {
				object.SetName(name)
				Expect(s.admin.Patch(context.Background(), object, patch)).To(Succeed())
			}
		}
	}
	past := func() bool {
		probe := hostile("probe", "no payload")
		return s.admin.Create(context.Background(), probe, client.DryRunAll) == nil
	}
	selector(`{"matchExpressions":[{"key":"` + pastAdmission + `","operator":"DoesNotExist"}]}`)
	DeferCleanup(func(ctx SpecContext) {
		selector(`{}`)
		Eventually(ctx, past).Should(BeFalse(), "waiting until admission is not passed")
	})
	s.eventually("admission is passed", past)
}

// configurations are the names of the webhook configurations whose first webhook is asked about deployments.
func configurations(s *server, kind client.Object) []string {
	list := &unstructured.UnstructuredList{}
	gvk, err := s.admin.GroupVersionKindFor(kind)
	Expect(err).NotTo(HaveOccurred())
	list.SetGroupVersionKind(gvk)
	Expect(s.admin.List(context.Background(), list)).To(Succeed())
	var out []string
	for i := range list.Items {
		hooks, _, _ := unstructured.NestedSlice(list.Items[i].Object, "webhooks")
		if len(hooks) > 0 && strings.Contains(fmt.Sprint(hooks[0]), "dynamographdeployments") {
			out = append(out, list.Items[i].GetName())
		}
	}
	return out
}

// hostile is a deployment of v1beta1 with a payload.
func hostile(name, payload string) *unstructured.Unstructured {
	object := deploymentOf("v1beta1", name)
	object.SetLabels(map[string]string{pastAdmission: "yes"})
	object.SetAnnotations(map[string]string{nvidiav1alpha1.AnnotationSpecMemory: payload})
	object.Object["spec"] = map[string]any{"components": []any{map[string]any{"name": "Worker", "podTemplate": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "x"}}}}}}}
	return object
}

var _ = Describe("Payloads that would take gigabytes to read", func() {
	It("are refused; stored past admission they are converted unread, and all other deployments are listed, watched, read and created as before", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		payload := payloadOf(4 << 20)
		s.wantRefused(s.tryCreate(func() client.Object { o := hostile("refused", payload); o.SetLabels(nil); return o }()),
			"metadata.annotations[nvidia.com/dgd-spec]", "decompresses to more than 1048576 bytes", "remove the annotation")

		s.passAdmission()
		innocent := map[string]map[string]any{}
		for i := range 5 {
			object := deploymentOf("v1alpha1", fmt.Sprintf("innocent-%d", i))
			object.Object["spec"] = manifest.Parse(GinkgoTB(), `{pvcs: [{name: p, create: false}], services: {Worker: {replicas: 1, resources: {limits: {gpu: "8"}}, envs: [{name: A, value: b}]}}}`)
			withImages(object)
			s.create(object)
			innocent[object.GetName()] = object.Object["spec"].(map[string]any)
		}
		for i := range 10 {
			s.create(hostile(fmt.Sprintf("hostile-%d", i), payload))
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("nvidia.com/v1alpha1")
		list.SetKind("DynamoGraphDeploymentList")
		Expect(s.admin.List(ctx, list, client.InNamespace("default"))).To(Succeed())
		s.wantInnocent(list.Items, innocent)

		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				defer GinkgoRecover()
				object := deploymentOf("v1alpha1", fmt.Sprintf("hostile-%d", i%10))
				Expect(s.admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				text := object.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]
				Expect(strings.Contains(text, payload) || strings.HasPrefix(text, "gzip+base64:")).To(BeTrue(), "the payload is not carried on: %.200s", text)
			})
		}
		late := deploymentOf("v1alpha1", "innocent-late")
		late.Object["spec"] = innocent["innocent-0"]
		s.create(late)
		innocent[late.GetName()] = innocent["innocent-0"]
		all.Wait()

		watched := s.watchAlpha(len(innocent) + 10)
		s.wantInnocent(watched, innocent)
		changed := deploymentOf("v1beta1", "hostile-0")
		Expect(s.admin.Patch(ctx, changed, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/dgd-spec":null},"labels":{"`+pastAdmission+`":null}}}`)))).To(Succeed())
		Expect(changed.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]).To(BeEmpty(), "the payload cannot be removed")
	})
})

// watchAlpha returns the first objects that a watch of v1alpha1 sends.
func (s *server) watchAlpha(count int) []unstructured.Unstructured {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(s.env.Config, client.Options{Scheme: s.scheme})
	Expect(err).NotTo(HaveOccurred())
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("nvidia.com/v1alpha1")
	list.SetKind("DynamoGraphDeploymentList")
	events, err := watcher.Watch(s.ctx, list, client.InNamespace("default"), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	Expect(err).NotTo(HaveOccurred())
	defer events.Stop()
	var out []unstructured.Unstructured
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		Expect(ok).To(BeTrue(), "the watch says %v", event.Object)
		if out = append(out, *object); len(out) == count {
			break
		}
	}
	return out
}

// wantInnocent fails the spec unless the objects have, by name, these specs.
func (s *server) wantInnocent(objects []unstructured.Unstructured, specs map[string]map[string]any) {
	GinkgoHelper()
	found := 0
	for i := range objects {
		want, ok := specs[objects[i].GetName()]
		if !ok {
			continue
		}
		found++
		Expect(cmp.Diff(want["services"], objects[i].Object["spec"].(map[string]any)["services"])).To(BeEmpty(), "%s (-want +got)", objects[i].GetName())
	}
	Expect(found).To(Equal(len(specs)), "how many are there")
}

var _ = Describe("Writes of three managers in both versions in turn", func() {
	DescribeTable("lose nothing of what any of them wrote, and the payload does not grow, in so many rounds:", func(ctx SpecContext, rounds int) {
		s := newServer(ctx)
		long := strings.Repeat("x", 5_000)
		pipeline := func(round int) *unstructured.Unstructured {
			object := deploymentOf("v1alpha1", "in-turn")
			object.Object["spec"] = manifest.Parse(GinkgoTB(), fmt.Sprintf(`
pvcs: [{name: p, create: false}]
services:
  Worker:
    envs: [{name: ROUND, value: "%d"}, {name: LONG, value: %s}]
    resources: {limits: {gpu: "8"}, requests: {gpu: "8"}}
    ingress: {enabled: false, host: h}
    extraPodSpec: {mainContainer: {image: i, env: [{name: INNER, value: a}]}}
`, round, long))
			return object
		}
		other := func(round int) *unstructured.Unstructured {
			object := deploymentOf("v1beta1", "in-turn")
			object.Object["spec"] = manifest.Parse(GinkgoTB(), fmt.Sprintf(
				`{components: [{name: Worker, podTemplate: {metadata: {labels: {round: "%d"}}, spec: {terminationGracePeriodSeconds: %d}}}]}`, round, round+1))
			return object
		}
		apply := func(object *unstructured.Unstructured, owner string) {
			GinkgoHelper()
			Expect(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner), client.ForceOwnership)).To(Succeed())
		}
		apply(pipeline(0), "pipeline")
		stored := deploymentOf("v1beta1", "in-turn")
		s.deleteAfter(stored)
		first := 0
		for round := range rounds {
			patch := fmt.Sprintf(`[{"op":"test","path":"/spec/components/0/name","value":"Worker"},{"op":"add","path":"/spec/components/0/replicas","value":%d}]`, round%7+1)
			Expect(s.admin.Patch(ctx, deploymentOf("v1beta1", "in-turn"), client.RawPatch(types.JSONPatchType, []byte(patch)), client.FieldOwner("autoscaler"))).To(Succeed())
			apply(other(round), "other")
			apply(pipeline(round), "pipeline")
			s.get(stored)
			size := len(stored.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory])
			if round == 2 {
				first = size
			}
			if round > 2 {
				Expect(size).To(BeNumerically("<=", first+100), "bytes of the payload in round %d", round)
			}
			s.wantAllOf(stored, round, long)
		}
	},
		Entry("20", SpecTimeout(suite.Timeout()), 20),
		Entry("200", suite.Slow, SpecTimeout(suite.Timeout()), 200))
})

// wantAllOf fails the spec unless a deployment of v1beta1 has what all managers wrote in a round.
func (s *server) wantAllOf(stored *unstructured.Unstructured, round int, long string) {
	GinkgoHelper()
	components, _, _ := unstructured.NestedSlice(stored.Object, "spec", "components")
	worker := components[0].(map[string]any)
	containers, _, _ := unstructured.NestedSlice(worker, "podTemplate", "spec", "containers")
	main := containers[0].(map[string]any)
	env := map[string]any{}
	for _, e := range main["env"].([]any) {
		env[e.(map[string]any)["name"].(string)] = e.(map[string]any)["value"]
	}
	grace, _, _ := unstructured.NestedInt64(worker, "podTemplate", "spec", "terminationGracePeriodSeconds")
	label, _, _ := unstructured.NestedString(worker, "podTemplate", "metadata", "labels", "round")
	limits, _, _ := unstructured.NestedMap(main, "resources", "limits")
	got := map[string]any{"env": env, "replicas": worker["replicas"], "grace": grace, "label": label, "limits": limits}
	want := map[string]any{
		"env":      map[string]any{"ROUND": fmt.Sprint(round), "LONG": long, "INNER": "a"},
		"replicas": int64(round%7 + 1), "grace": int64(round + 1), "label": fmt.Sprint(round), "limits": map[string]any{"nvidia.com/gpu": "8"},
	}
	Expect(cmp.Diff(want, got)).To(BeEmpty(), "round %d (-want +got)", round)
}
