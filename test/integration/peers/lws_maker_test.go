// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// group is a scaling group on the API server whose pods come from sets.
func group(t *testing.T, name, providerName string) *trellisv1alpha1.ScalingGroup {
	t.Helper()
	sg := newScenario(t, name, providerName).groups[0]
	sg.Spec.Workload = specs.LeaderWorkerSet
	return sg
}

func ends(t *testing.T, sg *trellisv1alpha1.ScalingGroup, ordinals ...int32) {
	t.Cleanup(func() {
		for _, ordinal := range ordinals {
			sets := client.Resource(resources[lws.Kind.Kind]).Namespace(sg.Namespace)
			_ = sets.Delete(context.Background(), graph.SetName(sg, ordinal), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		}
	})
}

// TestLeaderWorkerSetsUnderKAI: the pods in a set are KAI's and wait behind the gate, as the placer makes its own; their release makes them members.
func TestLeaderWorkerSetsUnderKAI(t *testing.T) {
	sg, m, p := group(t, "joined", specs.KAI.Name), maker.New(typed, typed), placer.New(typed, typed)
	ends(t, sg, 1)
	err := m.Make(t.Context(), sg, []int32{1}, func(ordinal int32, pod *corev1.Pod) { p.Prepare(sg, ordinal, []*corev1.Pod{pod}, nil) })
	if err != nil {
		t.Fatal(err)
	}
	sets, err := m.Sets(t.Context(), typed, sg)
	if err != nil || len(sets) != 1 {
		t.Fatalf("sets %v, %v", sets, err)
	}
	template := read[lws.LeaderWorkerSet](t, sets[1].(*unstructured.Unstructured)).Spec.LeaderWorkerTemplate
	for role, half := range map[string]lws.PodTemplate{graph.RoleLeader: *template.LeaderTemplate, graph.RoleWorker: template.WorkerTemplate} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: half.Metadata.Labels, Annotations: half.Metadata.Annotations}, Spec: half.Spec}
		if !p.Kept([]*corev1.Pod{pod}) || pod.Labels[kai.LabelSubGroup] != "" || pod.Spec.SchedulerName != kai.SchedulerName || pod.Labels[graph.LabelRole] != role || len(pod.Spec.SchedulingGates) != 1 {
			t.Errorf("%s: labels %v, annotations %v, scheduler %q, gates %v", role, pod.Labels, pod.Annotations, pod.Spec.SchedulerName, pod.Spec.SchedulingGates)
		}
	}
}

// TestMakerLeavesOthersAlone: a set is made once; one of that name that is another's is neither taken nor deleted.
func TestMakerLeavesOthersAlone(t *testing.T) {
	sg, m := group(t, "mine", specs.Gates.Name), maker.New(typed, typed)
	ends(t, sg, 0, 1)
	as := func(int32, *corev1.Pod) {}
	if err := m.Make(t.Context(), sg, []int32{0}, as); err != nil {
		t.Fatal(err)
	}
	before, err := m.Sets(t.Context(), nil, sg)
	if err != nil || len(before) != 1 {
		t.Fatalf("%v %v", before, err)
	}
	if err := m.Make(t.Context(), sg, []int32{0}, as); err != nil {
		t.Errorf("recreated: %v", err)
	}
	if after, _ := m.Sets(t.Context(), nil, sg); after[0] == nil || after[0].GetResourceVersion() != before[0].GetResourceVersion() {
		t.Error("it was written again")
	}
	foreign, err := external.Object(lws.For(sg).Render(1, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := typed.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	ownerless := "is not this group's; it is left alone. It cannot be adopted, since its pods name an earlier scaling group. To delete all of that: " +
		"kubectl delete -n default leaderworkersets.leaderworkerset.x-k8s.io " + foreign.GetName()
	if err := m.Make(t.Context(), sg, []int32{1}, as); err == nil || !strings.HasSuffix(err.Error(), ownerless) {
		t.Errorf("a foreign set was taken, or it is not said how it is deleted: %v", err)
	}
	foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "somebodys", UID: "1", Controller: ptr.To(true)}})
	if err := typed.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := m.Make(t.Context(), sg, []int32{1}, as); err == nil || !strings.HasSuffix(err.Error(), "is not this group's; it is left alone") {
		t.Errorf("a foreign set was taken, or it is said how it is deleted: %v", err)
	}
	if found, err := m.Unmake(t.Context(), sg, 1); found || err != nil {
		t.Errorf("a foreign set was deleted: %v %v", found, err)
	}
	if sets, _ := m.Sets(t.Context(), nil, sg); sets[1] != nil {
		t.Error("a foreign set counts as the group's")
	}
	if found, err := m.Unmake(t.Context(), sg, 0); !found || err != nil {
		t.Errorf("its own was not deleted: %v %v", found, err)
	}
	if sets, _ := m.Sets(t.Context(), nil, sg); sets[0] == nil || sets[0].GetDeletionTimestamp() == nil {
		t.Errorf("not on its way out, after its pods: %v", sets[0])
	}
	if found, err := m.Unmake(t.Context(), sg, 7); found || err != nil {
		t.Errorf("one that is not there: %v %v", found, err)
	}
	ungc(t, sg)
}

// ungc plays the garbage collector for the sets of a group.
func ungc(t *testing.T, sg *trellisv1alpha1.ScalingGroup) {
	t.Helper()
	set, err := client.Resource(resources[lws.Kind.Kind]).Namespace(sg.Namespace).Get(t.Context(), graph.SetName(sg, 0), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set.SetFinalizers(nil)
	if _, err := resourceOf(set).Update(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestMakerTellsWhatIsDropped: an API server that strips the gate gets no set of ours.
func TestMakerTellsWhatIsDropped(t *testing.T) {
	sg := group(t, "dropped", specs.Gates.Name)
	base, err := ctrl.NewWithWatch(restConfig, ctrl.Options{Scheme: operator.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	strips := interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, c ctrl.WithWatch, o ctrl.Object, options ...ctrl.CreateOption) error {
			unstructured.RemoveNestedField(o.(*unstructured.Unstructured).Object, "spec", "leaderWorkerTemplate", "workerTemplate", "spec", "schedulingGates")
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c ctrl.WithWatch, o ctrl.Object, options ...ctrl.DeleteOption) error {
			return c.Delete(ctx, o, append(options, ctrl.PropagationPolicy(metav1.DeletePropagationBackground))...) // nobody collects garbage here
		},
	})
	m := maker.New(strips, typed)
	err = m.Make(t.Context(), sg, []int32{0}, func(int32, *corev1.Pod) {})
	if !errors.Is(err, provider.ErrDropped) || !strings.Contains(err.Error(), "workerTemplate.spec.schedulingGates") {
		t.Errorf("got %v", err)
	}
	if sets, err := m.Sets(t.Context(), nil, sg); len(sets) > 0 || err != nil {
		t.Errorf("it is still there: %v %v", sets, err)
	}
}

func TestMakerProbe(t *testing.T) {
	crd := func(edit func(*apiextensionsv1.CustomResourceDefinition)) ctrl.Object {
		out, err := definition("lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
		if err != nil {
			t.Fatal(err)
		}
		edit(out)
		return out
	}
	worker := func(c *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
		return c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["leaderWorkerTemplate"].Properties["workerTemplate"]
	}
	cases := map[string]struct {
		objects         []ctrl.Object
		reason, message string
	}{
		"not installed": {nil, nvidiav1alpha1.ReasonAPINotServed, "is not served; install LeaderWorkerSet"},
		"switched off": {[]ctrl.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = false })},
			nvidiav1alpha1.ReasonAPINotServed, "not served in version v1"},
		"gates dropped": {[]ctrl.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(worker(c).Properties["spec"].Properties, "schedulingGates")
		})}, nvidiav1alpha1.ReasonFieldsDropped, "has no spec.leaderWorkerTemplate.workerTemplate.spec.schedulingGates"},
		"labels dropped": {[]ctrl.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(worker(c).Properties["metadata"].Properties, "labels")
		})}, nvidiav1alpha1.ReasonFieldsDropped, "has no spec.leaderWorkerTemplate.workerTemplate.metadata.labels"},
		"as it is today": {[]ctrl.Object{crd(func(*apiextensionsv1.CustomResourceDefinition) {})}, nvidiav1alpha1.ReasonProviderAvailable, ""},
	}
	for name, c := range cases {
		reader := fake.NewClientBuilder().WithScheme(operator.NewScheme()).WithObjects(c.objects...).Build()
		state, err := maker.New(reader, reader).Probe(t.Context())
		if err != nil || state.Reason != c.reason || !strings.Contains(state.Message, c.message) || state.Ready != (c.message == "") {
			t.Errorf("%s: %+v %v", name, state, err)
		}
	}
}

func TestMakerUnsuited(t *testing.T) {
	want := map[string]string{
		specs.Gates.Name: "", specs.KAI.Name: "",
		specs.PodGroup.Name: "LeaderWorkerSets can be placed by Gates and KAI, not by PodGroup; choose one of them, or remove the annotation trellis.dev/workload",
		specs.Grove.Name:    "LeaderWorkerSets can be placed by Gates and KAI, not by Grove; choose one of them, or remove the annotation trellis.dev/workload",
	}
	got := map[string]string{}
	for name := range want {
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Provider: name, Workload: specs.LeaderWorkerSet}}
		got[name] = maker.Maker{}.Unsuited([]*trellisv1alpha1.ScalingGroup{sg})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
