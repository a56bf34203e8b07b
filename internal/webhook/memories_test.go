// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// pastAdmission is the label of objects that admission is not asked about in a test that calls passAdmission.
const pastAdmission = "test.trellis.dev/past-admission"

// passAdmission leaves objects with the label pastAdmission to the schema alone: what was stored while there was no webhook.
func (s *server) passAdmission() {
	s.t.Helper()
	selector := func(selector string) {
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/webhooks/0/objectSelector","value":`+selector+`}]`))
		for _, object := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
			for _, name := range configurations(s, object) {
				object.SetName(name)
				s.must(s.admin.Patch(context.Background(), object, patch))
			}
		}
	}
	past := func() bool {
		probe := hostile("probe", "no payload")
		return s.admin.Create(context.Background(), probe, client.DryRunAll) == nil
	}
	selector(`{"matchExpressions":[{"key":"` + pastAdmission + `","operator":"DoesNotExist"}]}`)
	s.t.Cleanup(func() {
		selector(`{}`)
		err := wait.PollUntilContextTimeout(context.Background(), lookEvery, patience, true, func(context.Context) (bool, error) { return !past(), nil })
		s.must(err)
	})
	s.eventually("admission is passed", past)
}

// configurations are the names of the webhook configurations whose first webhook is asked about deployments.
func configurations(s *server, kind client.Object) []string {
	list := &unstructured.UnstructuredList{}
	gvk, err := s.admin.GroupVersionKindFor(kind)
	s.must(err)
	list.SetGroupVersionKind(gvk)
	s.must(s.admin.List(context.Background(), list))
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

// Objects whose payloads would take gigabytes to read are refused. Stored past admission they are converted with the payload unread, and everybody
// else is listed, watched, read and created as before.
func TestHostilePayloadsHarmNobodyElse(t *testing.T) {
	s := newServer(t)
	payload := payloadOf(4 << 20)
	s.wantRefused(s.tryCreate(func() client.Object { o := hostile("refused", payload); o.SetLabels(nil); return o }()),
		"metadata.annotations[nvidia.com/dgd-spec]", "decompresses to more than 1048576 bytes", "remove the annotation")

	s.passAdmission()
	innocent := map[string]map[string]any{}
	for i := range 5 {
		object := deploymentOf("v1alpha1", fmt.Sprintf("innocent-%d", i))
		object.Object["spec"] = manifest.Parse(t, `{pvcs: [{name: p, create: false}], services: {Worker: {replicas: 1, resources: {limits: {gpu: "8"}}, envs: [{name: A, value: b}]}}}`)
		withImages(t, object)
		s.create(object)
		innocent[object.GetName()] = object.Object["spec"].(map[string]any)
	}
	for i := range 10 {
		s.create(hostile(fmt.Sprintf("hostile-%d", i), payload))
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("nvidia.com/v1alpha1")
	list.SetKind("DynamoGraphDeploymentList")
	s.must(s.admin.List(t.Context(), list, client.InNamespace("default")))
	s.wantInnocent(list.Items, innocent)

	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			object := deploymentOf("v1alpha1", fmt.Sprintf("hostile-%d", i%10))
			if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Error(err)
			}
			if text := object.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]; !strings.Contains(text, payload) && !strings.HasPrefix(text, "gzip+base64:") {
				t.Errorf("the payload is not carried on: %.200s", text)
			}
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
	s.must(s.admin.Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/dgd-spec":null},"labels":{"`+pastAdmission+`":null}}}`))))
	if text := changed.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]; text != "" {
		t.Errorf("the payload cannot be removed: %.100s", text)
	}
}

// watchAlpha returns the first objects that a watch of v1alpha1 sends.
func (s *server) watchAlpha(count int) []unstructured.Unstructured {
	s.t.Helper()
	watcher, err := client.NewWithWatch(s.env.Config, client.Options{Scheme: s.scheme})
	s.must(err)
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("nvidia.com/v1alpha1")
	list.SetKind("DynamoGraphDeploymentList")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	events, err := watcher.Watch(ctx, list, client.InNamespace("default"), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	s.must(err)
	defer events.Stop()
	var out []unstructured.Unstructured
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			s.t.Fatalf("the watch says %v", event.Object)
		}
		if out = append(out, *object); len(out) == count {
			break
		}
	}
	return out
}

// wantInnocent fails the test unless the objects have, by name, these specs.
func (s *server) wantInnocent(objects []unstructured.Unstructured, specs map[string]map[string]any) {
	s.t.Helper()
	found := 0
	for i := range objects {
		want, ok := specs[objects[i].GetName()]
		if !ok {
			continue
		}
		found++
		if diff := cmp.Diff(want["services"], objects[i].Object["spec"].(map[string]any)["services"]); diff != "" {
			s.t.Errorf("%s (-want +got):\n%s", objects[i].GetName(), diff)
		}
	}
	if found != len(specs) {
		s.t.Errorf("%d of %d are there", found, len(specs))
	}
}

// rounds of writes in both versions in turn.
const rounds = 200

// A pipeline applies v1alpha1, an autoscaler writes replicas through v1beta1, and another manager applies v1beta1, in turn. Nothing of what any
// of them wrote is lost, and the payload does not grow.
func TestWritesInBothVersionsLoseNothing(t *testing.T) {
	s := newServer(t)
	long := strings.Repeat("x", 5_000)
	pipeline := func(round int) *unstructured.Unstructured {
		object := deploymentOf("v1alpha1", "in-turn")
		object.Object["spec"] = manifest.Parse(t, fmt.Sprintf(`
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
		object.Object["spec"] = manifest.Parse(t, fmt.Sprintf(
			`{components: [{name: Worker, podTemplate: {metadata: {labels: {round: "%d"}}, spec: {terminationGracePeriodSeconds: %d}}}]}`, round, round+1))
		return object
	}
	apply := func(object *unstructured.Unstructured, owner string) {
		t.Helper()
		s.must(s.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner), client.ForceOwnership))
	}
	apply(pipeline(0), "pipeline")
	stored := deploymentOf("v1beta1", "in-turn")
	s.deleteAfter(stored)
	first := 0
	for round := range rounds {
		patch := fmt.Sprintf(`[{"op":"test","path":"/spec/components/0/name","value":"Worker"},{"op":"add","path":"/spec/components/0/replicas","value":%d}]`, round%7+1)
		s.must(s.admin.Patch(t.Context(), deploymentOf("v1beta1", "in-turn"), client.RawPatch(types.JSONPatchType, []byte(patch)), client.FieldOwner("autoscaler")))
		apply(other(round), "other")
		apply(pipeline(round), "pipeline")
		s.get(stored)
		size := len(stored.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory])
		if round == 2 {
			first = size
		}
		if round > 2 && size > first+100 {
			t.Fatalf("round %d: the payload has %d bytes, %d in round 2", round, size, first)
		}
		s.wantAllOf(stored, round, long)
	}
}

// wantAllOf fails the test unless a deployment of v1beta1 says what all managers wrote in a round.
func (s *server) wantAllOf(stored *unstructured.Unstructured, round int, long string) {
	s.t.Helper()
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
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Fatalf("round %d (-want +got):\n%s", round, diff)
	}
}
