// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"sigs.k8s.io/randfill"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/strip"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Whatever a pod holds, the planner counts it stripped as it does whole, and the same is said of how it is.
func TestStrippedPodsCountTheSame(t *testing.T) {
	differ := false
	for seed := range int64(300) {
		pod := randomPod(seed)
		whole := pod.DeepCopy()
		stripped := strippedPod(t, pod)
		if a, b := topology.ShapeOf(whole), topology.ShapeOf(stripped); a.Key() != b.Key() {
			t.Fatalf("seed %d: the shape is another one: (-whole +stripped):\n%s", seed, cmp.Diff(a.Key(), b.Key()))
		}
		differ = differ || topology.ShapeOf(whole).Key() != topology.ShapeOf(randomPod(seed+1)).Key()
		for what, said := range map[string]func(*corev1.Pod) any{
			"metadata": func(p *corev1.Pod) any {
				m := p.ObjectMeta.DeepCopy()
				m.ManagedFields, m.Annotations = nil, strip.Annotations(m.Annotations)
				return *m
			},
			"gate":        func(p *corev1.Pod) any { return render.GateClosed(p) },
			"gang":        func(p *corev1.Pod) any { return p.Annotations[render.AnnotationGang] },
			"leaving":     func(p *corev1.Pod) any { return gang.Leaving(p) },
			"host":        func(p *corev1.Pod) any { return gang.PinnedHost(p) },
			"priority":    func(p *corev1.Pod) any { return topology.PriorityOf(p) },
			"conditions":  func(p *corev1.Pod) any { return p.Status.Conditions },
			"unscheduled": func(p *corev1.Pod) any { return gang.WhyUnschedulable(p) },
			"selector":    func(p *corev1.Pod) any { return p.Spec.NodeSelector },
			"scheduler":   func(p *corev1.Pod) any { return schedulerOf(p) },
			"containers":  func(p *corev1.Pod) any { return howContainersAre(p) },
		} {
			if diff := cmp.Diff(said(whole), said(stripped)); diff != "" {
				t.Fatalf("seed %d: %s (-whole +stripped):\n%s", seed, what, diff)
			}
		}
		for _, c := range append(stripped.Spec.Containers, stripped.Spec.InitContainers...) {
			if c.Env != nil || c.Command != nil || c.Args != nil || c.LivenessProbe != nil ||
				slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name != "" || len(m.BindMountOptions) != 1 }) {
				t.Fatalf("seed %d: container %s is kept whole", seed, c.Name)
			}
		}
	}
	if !differ {
		t.Error("all pods are of one shape")
	}
}

// Some pods use features of the kubelet, so that TestStrippedPodsCountTheSame compares them, too.
func TestRandomPodsUseFeatures(t *testing.T) {
	using := map[string]int{}
	for seed := range int64(300) {
		spec := randomPod(seed).Spec
		used, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &spec},
			version.MajorMinor(1, 37))
		if err != nil {
			t.Fatal(err)
		}
		names, err := nodedeclaredfeatures.DefaultFramework.Unmap(used)
		if err != nil {
			t.Fatal(err)
		}
		using[strings.Join(names, " ")]++
	}
	for _, names := range []string{"", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"} {
		if using[names] == 0 {
			t.Errorf("no pod uses just %q: %v", names, using)
		}
	}
}

// A pod of others takes the same, also one that is being resized, and is the same to the rules and the volumes of other pods.
func TestStrippedPodsOfOthersTakeTheSame(t *testing.T) {
	resized := 0
	for seed := range int64(300) {
		pod := randomPod(seed)
		delete(pod.Labels, render.LabelScalingGroup)
		whole, unresized := pod.DeepCopy(), pod.DeepCopy()
		unresized.Status = corev1.PodStatus{}
		if stripped := strippedPod(t, pod); !topology.SameRequests(whole, stripped) {
			t.Fatalf("seed %d: it takes %v, stripped %v", seed, topology.ShapeOf(whole).Requests(), topology.ShapeOf(stripped).Requests())
		} else if diff := cmp.Diff(seenByOthers(whole), seenByOthers(stripped), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: (-whole +stripped):\n%s", seed, diff)
		}
		if !topology.SameRequests(whole, unresized) {
			resized++
		}
	}
	if resized == 0 {
		t.Error("no pod is being resized")
	}
}

// seenByOthers is what rules about pods, and claims, see of one that runs.
func seenByOthers(pod *corev1.Pod) []any {
	var repels []corev1.PodAffinityTerm
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		repels = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	claims := slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil && v.Ephemeral == nil })
	return []any{pod.Namespace, pod.Name, pod.Labels, repels, claims}
}

func strippedPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	out, err := StripPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Pod)
}

// howContainersAre is what conditions of a scaling group are made from.
func howContainersAre(pod *corev1.Pod) string {
	var b strings.Builder
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		fmt.Fprintln(&b, s.Name, s.State.String(), s.LastTerminationState.String(), s.Ready, s.RestartCount, s.Image)
	}
	return b.String()
}

func randomPod(seed int64) *corev1.Pod {
	pod := &corev1.Pod{}
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", c.Intn(20)) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Intn(100)), resource.DecimalSI)
		},
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(int64(c.Intn(1<<30)), 0) },
		func(a *corev1.ContainerRestartRuleAction, c randfill.Continue) {
			*a = corev1.ContainerRestartRuleActionRestart
			if c.Intn(8) == 0 {
				*a = corev1.ContainerRestartRuleActionRestartAllContainers
			}
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString("{}") },
	).Fill(pod)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[render.LabelScalingGroup] = "g-worker"
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[render.AnnotationGang] = fmt.Sprint("gang-", seed%7)
	return pod
}

// Pods of one template have their containers in memory once, ours as well as those of others; a pod with other requests has its own.
func TestStrippedPodsShareTheirTemplate(t *testing.T) {
	pod := func(name, cpu string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		}}
	}
	for kind, labels := range map[string]map[string]string{"own": {render.LabelScalingGroup: "g-worker"}, "others": nil} {
		a, b, c := strippedPod(t, pod("a", "7", labels)), strippedPod(t, pod("b", "7", labels)), strippedPod(t, pod("c", "8", labels))
		if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
			t.Errorf("%s: two pods of one template do not share it", kind)
		}
		onHost := func(host string) *corev1.Pod {
			p := pod(host, "7", labels)
			p.Spec.Affinity = onlyOn(host)
			return strippedPod(t, p)
		}
		d, e := onHost("h0"), onHost("h1")
		if &d.Spec.Containers[0] != &a.Spec.Containers[0] || &e.Spec.Containers[0] != &a.Spec.Containers[0] {
			t.Errorf("%s: pods on hosts of their own do not share their template", kind)
		}
		if labels != nil && (d.Spec.Affinity == e.Spec.Affinity || d.Spec.Affinity != onHost("h0").Spec.Affinity) {
			t.Errorf("%s: affinities %v and %v", kind, d.Spec.Affinity, e.Spec.Affinity)
		}
		if cpu := c.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "8" {
			t.Errorf("%s: the pod of another template asks for %s CPUs, not 8", kind, cpu)
		}
	}
}
