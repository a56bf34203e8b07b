// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
	"github.com/trellis-k8s/trellis/internal/render"
)

// createdPod returns a pod as the operator creates it.
func createdPod(name, graphName string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{render.LabelGraph: graphName, render.LabelRole: render.RoleWorker},
			Annotations: map[string]string{render.AnnotationLevels: `{"rack":"` + hall.Rack.Key() + `","zone":"` + hall.Zone.Key() + `"}`},
		},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: graphName,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: render.PlacementGate}},
			Tolerations:     []corev1.Toleration{{Key: hall.GPU.String(), Operator: corev1.TolerationOpExists}},
			Volumes:         []corev1.Volume{{Name: "shared-memory"}},
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/vllm:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "shared-memory", MountPath: "/dev/shm"}},
			}},
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		},
	}
}

// admitted returns a pod as the API server stores it; bound, as a released one becomes.
func admitted(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.UID, p.ResourceVersion, p.ManagedFields = "u", "7", []metav1.ManagedFieldsEntry{{Manager: "operator"}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: "g", Controller: ptr.To(true)}}
	p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "g-k8s-service-discovery", "g-k8s-service-discovery"
	p.Spec.Priority, p.Spec.PreemptionPolicy = ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeNotReady}, corev1.Toleration{Key: corev1.TaintNodeUnreachable})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access-abcde"})
	main := &p.Spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-abcde", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
	return p
}

func bound(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.Labels[corev1.LabelTopologyZone] = p.Spec.NodeSelector[hall.Zone.Key()]
	p.Spec.NodeName, p.Status.Phase = "host-000001", corev1.PodRunning
	return p
}

func text(pod *corev1.Pod) string {
	data, err := json.Marshal(pod)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// patched returns a pod after its release.
func patched(t *testing.T, pod *corev1.Pod, pin gang.Pin) *corev1.Pod {
	t.Helper()
	patch, err := gates.Patch(pod, pin)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, pod)
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGatedAs checks that a gated pod equals the released one at its creation, and that its release has the same result.
func TestGatedAs(t *testing.T) {
	rack := map[string]string{hall.Zone.Key(): "zone-0", hall.Rack.Key(): "rack-3"}
	apart := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	for name, tc := range map[string]struct {
		affinity *corev1.Affinity
		pin      gang.Pin
	}{
		"rack":                        {pin: gang.Pin{Gang: "g-1", Labels: rack}},
		"planned host":                {pin: gang.Pin{Gang: "g-1", Labels: rack, Node: "host-1"}},
		"affinity of its own":         {affinity: apart, pin: gang.Pin{Gang: "g-1", Labels: rack}},
		"affinity of its own, a host": {affinity: apart, pin: gang.Pin{Gang: "g-1", Labels: rack, Node: "host-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			created := createdPod("g-worker-0-0", "g")
			created.Spec.Affinity = tc.affinity
			released := bound(patched(t, admitted(created), tc.pin))

			gated := gatedAs(released, "g")
			created.Labels[gangLabelKey] = "g"
			if !reflect.DeepEqual(gated, created) {
				t.Errorf("the gated pod is\n%s\nand was created as\n%s", text(gated), text(created))
			}
			again := patched(t, gated, pinOf(released))
			if want := patched(t, created, tc.pin); !reflect.DeepEqual(again, want) {
				t.Errorf("its release makes it\n%s\nand the operator's made it\n%s", text(again), text(want))
			}
			if !reflect.DeepEqual(again.Spec.NodeSelector, released.Spec.NodeSelector) || !reflect.DeepEqual(again.Spec.Affinity, released.Spec.Affinity) ||
				!reflect.DeepEqual(again.Spec.SchedulingGates, released.Spec.SchedulingGates) {
				t.Errorf("its release makes it\n%s\nand it is of\n%s", text(again), text(released))
			}
		})
	}
}

// TestCreateGated checks that no pod is released before its whole gang is created, and that all are released.
func TestCreateGated(t *testing.T) {
	byGang := map[string][]*corev1.Pod{}
	for i := range 20 {
		for k := range 3 {
			pod := admitted(createdPod(fmt.Sprintf("g%d-worker-0-%d", i, k), fmt.Sprintf("g%d", i)))
			pin := gang.Pin{Gang: "x", Labels: map[string]string{hall.Rack.Key(): fmt.Sprintf("rack-%d", i)}, Node: fmt.Sprintf("host-%d", k)}
			byGang[Packed.gangOf(pod)] = append(byGang[Packed.gangOf(pod)], bound(patched(t, pod, pin)))
		}
	}
	var lock sync.Mutex
	created := map[string]int{}
	c := &Cluster{c: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			lock.Lock()
			defer lock.Unlock()
			created[o.GetLabels()[gangLabelKey]]++
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			lock.Lock()
			defer lock.Unlock()
			if name, _, _ := strings.Cut(o.GetName(), "-"); created[name] != 3 {
				t.Errorf("pod %s is released when its gang has %d pods", o.GetName(), created[name])
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})}
	way := asGated(byGang)
	if err := way.send(t.Context(), c, way.objects(hall.Shape{}, 20, 3)); err != nil {
		t.Fatal(err)
	}
	list := &corev1.PodList{}
	if err := c.c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 60 {
		t.Errorf("there are %d pods", len(list.Items))
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if _, _, owned := render.GroupOf(pod); owned || render.GateClosed(pod) || pod.Spec.NodeSelector[hall.Rack.Key()] != strings.Replace(gangLabel(pod), "g", "rack-", 1) ||
			gang.PinnedHost(pod) != "host-"+pod.Name[len(pod.Name)-1:] {
			t.Errorf("pod %s: owners %v, gates %v, pinned to %v and %v", pod.Name, pod.OwnerReferences, pod.Spec.SchedulingGates, pod.Spec.NodeSelector, pod.Spec.Affinity)
		}
	}
}
