// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
	"github.com/trellis-k8s/trellis/internal/render"
)

// asGated returns the way with pods like the released ones, without deployment and operator: one batch for each gang.
func asGated(byGang map[string][]*corev1.Pod) Way {
	pins := map[string]gang.Pin{}
	for _, pods := range byGang {
		for _, pod := range pods {
			pins[pod.Name] = pinOf(pod)
		}
	}
	return Way{
		Name: GatedName, gangOf: gangLabel,
		objects: func(hall.Shape, int, int) [][]client.Object {
			batches := make([][]client.Object, 0, len(byGang))
			for _, name := range slices.Sorted(maps.Keys(byGang)) {
				var members []client.Object
				for _, pod := range byGang[name] {
					members = append(members, gatedAs(pod, name))
				}
				batches = append(batches, members)
			}
			return batches
		},
		create: func(ctx context.Context, c *Cluster, gangs [][]client.Object) error {
			return c.createGated(ctx, gangs, pins)
		},
	}
}

// createGated creates gangs of gated pods, and releases the pods of a gang after it has created all of them. Gangs are created in parallel,
// each with one request at a time, so that the number of parallel requests is the same as for other ways.
func (c *Cluster) createGated(ctx context.Context, gangs [][]client.Object, pins map[string]gang.Pin) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, members := range gangs {
		group.Go(func() error {
			for _, o := range members {
				if err := c.createOne(ctx, o); err != nil {
					return err
				}
			}
			for _, o := range members {
				if err := c.release(ctx, o.(*corev1.Pod), pins[o.GetName()]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// release sends the operator's release patch.
func (c *Cluster) release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	patch, err := gates.Patch(pod, pin)
	if err != nil {
		return err
	}
	answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := c.c.Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("releasing pod %s: %w", pod.Name, err)
	}
	return nil
}

// pinOf returns the pin with which a pod was released. The pod had no node selector and no node affinity of its own.
func pinOf(pod *corev1.Pod) gang.Pin {
	return gang.Pin{Gang: pod.Annotations[render.AnnotationGang], Labels: pod.Spec.NodeSelector, Node: gang.PinnedHost(pod)}
}

// gatedAs returns a pod without owner, with the content with which a released pod was created. The operator ignores pods without owner.
func gatedAs(pod *corev1.Pod, gangName string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: maps.Clone(pod.Labels),
			Annotations: maps.Clone(pod.Annotations)},
		Spec: *pod.Spec.DeepCopy(),
	}
	undoRelease(p)
	undoAdmission(&p.Spec)
	p.Labels[gangLabelKey] = gangName
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	return p
}

// undoRelease removes everything that release and binding added, and closes the gate.
func undoRelease(p *corev1.Pod) {
	for label := range render.TopologyLabels(p, p.Spec.NodeSelector) {
		delete(p.Labels, label)
	}
	delete(p.Labels, corev1.LabelTopologyZone) // the API server copies it from the node
	delete(p.Annotations, render.AnnotationGang)
	p.Spec.NodeName, p.Spec.NodeSelector = "", nil
	if affinity := p.Spec.Affinity; affinity != nil {
		if affinity.NodeAffinity = nil; *affinity == (corev1.Affinity{}) {
			p.Spec.Affinity = nil
		}
	}
	p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: render.PlacementGate})
}

// undoAdmission removes everything that admission adds again: sent by the client, it would be in the managed fields. The service account of
// the token volume belonged to the deployment and is deleted with it.
func undoAdmission(spec *corev1.PodSpec) {
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.Priority, spec.PreemptionPolicy = "", "", nil, nil
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	token := func(volume string) bool { return strings.HasPrefix(volume, "kube-api-access-") }
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return token(v.Name) })
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return token(m.Name) })
		}
	}
}
