// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

const deep = `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
  services:
    Deep:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 3}
      topologyConstraint: {packDomain: rack}
      envs: [{name: WHO, value: "$(TRELLIS_POD_INDEX)"}]
      extraPodSpec: {initContainers: [{name: first, image: x}]}`

// groups are the same component with pods of our own and with sets.
func groups(t *testing.T) (own, sets *trellisv1alpha1.ScalingGroup) {
	t.Helper()
	own = providertest.Groups(t, providertest.Deployment(t, deep), "Gates")[0]
	own.UID = "uid"
	own.Spec.Restart = &trellisv1alpha1.Restart{ID: "again"}
	return own, providertest.InSets([]*trellisv1alpha1.ScalingGroup{own})[0]
}

// TestPodsAreOurs: but for what differs from pod to pod, the pods of a set are those Trellis would make: gate, account, labels, commands,
// order of variables, files that tell the place.
func TestPodsAreOurs(t *testing.T) {
	own, sg := groups(t)
	templates := lws.For(sg)
	for _, ordinal := range []int32{0, 1, 12} {
		template := templates.Render(ordinal, nil).Spec.LeaderWorkerTemplate
		for index, got := range map[int32]lws.PodTemplate{0: *template.LeaderTemplate, 2: template.WorkerTemplate} {
			want := render.BuildPod(own, ordinal, index)
			delete(want.Labels, render.LabelPodIndex)
			want.Labels[render.LabelGroupUID] = "uid"
			want.Spec.Hostname, want.Spec.Subdomain = "", ""
			if diff := cmp.Diff(want.Labels, got.Metadata.Labels); diff != "" {
				t.Errorf("labels of pod %d-%d (-want +got):\n%s", ordinal, index, diff)
			}
			if diff := cmp.Diff(want.Annotations, got.Metadata.Annotations); diff != "" {
				t.Errorf("annotations of pod %d-%d (-want +got):\n%s", ordinal, index, diff)
			}
			blank(&want.Spec)
			blank(&got.Spec)
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("pod %d-%d (-want +got):\n%s", ordinal, index, diff)
			}
			if got.Spec.ServiceAccountName != "g-k8s-service-discovery" || len(got.Spec.SchedulingGates) != 1 {
				t.Errorf("pod %d-%d has account %q and gates %v", ordinal, index, got.Spec.ServiceAccountName, got.Spec.SchedulingGates)
			}
		}
		if template.Size != 3 {
			t.Errorf("size %d", template.Size)
		}
	}
}

// blank takes the values of the variables that differ between the two ways.
func blank(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].Env = slices.Clone(containers[i].Env)
			for j := range containers[i].Env {
				if e := &containers[i].Env[j]; strings.HasPrefix(e.Name, "TRELLIS_") {
					*e = corev1.EnvVar{Name: e.Name}
				}
			}
		}
	}
}

// TestReplicasShareNothingThatDiffers: what a set of one replica says does not change when those of others are rendered and joined.
func TestReplicasShareNothingThatDiffers(t *testing.T) {
	_, sg := groups(t)
	text := func(set *lws.LeaderWorkerSet) string {
		raw, err := yaml.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	join := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Labels["in"], pod.Annotations["in"], pod.Spec.SchedulerName = name, name, name
		}
	}
	templates := lws.For(sg)
	first := templates.Render(0, join("a"))
	before := text(first)
	if other := text(templates.Render(1, join("b"))); strings.ReplaceAll(before, "a\n", "b\n") == other {
		t.Error("the two do not differ")
	}
	if diff := cmp.Diff(before, text(first)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, text(templates.Render(0, join("a")))); diff != "" {
		t.Errorf("rendered again (-before +after):\n%s", diff)
	}
}

// TestSetSaysWhatItIsOf: by its labels and annotations it is found, and known to be outdated, like a pod.
func TestSetSaysWhatItIsOf(t *testing.T) {
	_, sg := groups(t)
	set := lws.For(sg).Render(1, nil)
	if ordinal, ok := render.OrdinalOf(set); !ok || ordinal != 1 || render.ReplicaSize(sg, set) != 3 || render.Outdated(sg, set) {
		t.Errorf("reads as replica %d, size %d, outdated %v", ordinal, render.ReplicaSize(sg, set), render.Outdated(sg, set))
	}
	want := maps.Clone(sg.Labels)
	maps.Copy(want, map[string]string{
		render.LabelReplica: "1", render.LabelRevision: sg.Spec.Revision, render.LabelReplicaSize: "3", render.LabelGroupUID: "uid",
		render.LabelScalingGroup: "g-deep", render.LabelGraph: "g",
	})
	if diff := cmp.Diff(want, set.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{render.AnnotationGraph: "g", render.AnnotationRestart: "again"}, set.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	sg.Spec.Restart.ID = "once more"
	if !render.Outdated(sg, set) {
		t.Error("a set from before the last restart is not outdated")
	}
}

func TestVariables(t *testing.T) {
	_, sg := groups(t)
	for i := range sg.Spec.Roles {
		main := &sg.Spec.Roles[i].Template.Spec.Containers[0]
		main.Env = append(main.Env, corev1.EnvVar{Name: "HOSTS", Value: "$(TRELLIS_HOSTS)"})
	}
	env := lws.For(sg).Render(1, nil).Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Env
	value := func(name string) string {
		at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		if ref := env[at].ValueFrom; ref != nil {
			return ref.FieldRef.FieldPath
		}
		return env[at].Value
	}
	for name, want := range map[string]string{
		framework.EnvLeaderAddress: "$(LWS_LEADER_ADDRESS)",
		framework.EnvHosts:         "$(LWS_LEADER_ADDRESS),g-deep-r1-0-1.g-deep-r1.ns,g-deep-r1-0-2.g-deep-r1.ns",
		framework.EnvPodIndex:      "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']",
		framework.EnvReplica:       "1",
	} {
		if got := value(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if last := env[len(env)-1]; last.Name == framework.EnvPodIndex {
		t.Error("the index comes last, so that nothing can refer to it")
	}
}

// TestNames: what LeaderWorkerSet and StatefulSets append still fits, and replicas of long names differ.
func TestNames(t *testing.T) {
	dgd := providertest.Deployment(t, "metadata: {name: 7b-"+strings.Repeat("a", 60)+", namespace: ns}\nspec: {services: {"+strings.Repeat("B", 60)+": {componentType: worker, multinode: {nodeCount: 2}}}}")
	sg := providertest.Groups(t, dgd, "Gates")[0]
	seen := map[string]bool{}
	for _, ordinal := range []int32{0, 1, 10, 99999} {
		name := render.SetName(sg, ordinal)
		if seen[name] || len(validation.IsDNS1035Label(name)) > 0 || len(name+"-0"+"-0123456789") > validation.LabelValueMaxLength {
			t.Errorf("%q is taken, no name of a Service, or too long (%d)", name, len(name))
		}
		seen[name] = true
	}
}

// TestNamesDoNotMeet: whatever components a deployment has, no StatefulSet and no pod of a set has the name of another's, or of a pod of ours.
func TestNamesDoNotMeet(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    X: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
    X-1: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
    X-1-0: {componentType: worker, replicas: 2}
    X-0: {componentType: worker, replicas: 2}`)
	taken := map[string]string{}
	take := func(name, by string) {
		if other, clash := taken[name]; clash {
			t.Errorf("%s is the name of %s and of %s", name, other, by)
		}
		taken[name] = by
	}
	for _, sg := range providertest.InSets(providertest.Groups(t, dgd, "Gates")) {
		for ordinal := range sg.Spec.Replicas {
			by := fmt.Sprintf("%s-%d", sg.Spec.Component, ordinal)
			if sg.Spec.Multinode {
				take("statefulset/"+render.SetName(sg, ordinal), by+" (leader)")
				take("statefulset/"+render.SetName(sg, ordinal)+"-0", by+" (workers)")
			}
			for index := range render.PodsPerReplica(sg) {
				take("pod/"+render.BuildPod(sg, ordinal, index).Name, by)
			}
		}
	}
}
