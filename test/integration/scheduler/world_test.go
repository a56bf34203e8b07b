// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
)

// accept makes a drawn world one that an API server takes.
func accept(w *smallworld.World) {
	for _, p := range slices.Concat(w.Bound, w.Gang) {
		c := &p.Spec.Containers[0]
		c.Name, c.Image = "main", "example.com/main"
		c.Resources.Limits = maps.Clone(c.Resources.Requests)
		var constraints []corev1.TopologySpreadConstraint
		for _, one := range p.Spec.TopologySpreadConstraints {
			if s := one.LabelSelector; s == nil || s.MatchLabels["app"] != "" {
				one.MatchLabelKeys = nil
			}
			same := func(other corev1.TopologySpreadConstraint) bool { return other.TopologyKey == one.TopologyKey }
			if !slices.ContainsFunc(constraints, same) {
				constraints = append(constraints, one)
			}
		}
		p.Spec.TopologySpreadConstraints = constraints
	}
	for _, o := range w.Volumes {
		if v, is := o.(*corev1.PersistentVolume); is {
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}
		if c, is := o.(*corev1.PersistentVolumeClaim); is {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}
	}
}

func createNamespaces(ctx context.Context) {
	GinkgoHelper()
	for _, o := range (&smallworld.World{}).Objects() {
		ns := o.(*corev1.Namespace)
		ns.Labels = maps.Clone(ns.Labels)
		ns.Labels["resource.kubernetes.io/admin-access"] = "true"
		Expect(api.Create(ctx, ns)).To(Succeed())
	}
}

// create creates a world. Its gang is gated; the claims of its pods are made from templates.
func create(ctx context.Context, w *smallworld.World) {
	GinkgoHelper()
	for _, n := range w.Nodes {
		n = n.DeepCopy()
		status, taints := n.Status, n.Spec.Taints
		createOne(ctx, n)
		n.Status = status
		Expect(api.Status().Update(ctx, n)).To(Succeed())
		n.Spec.Taints = taints // admission adds one
		Expect(api.Update(ctx, n)).To(Succeed())
	}
	for _, o := range w.Devices {
		createDevices(ctx, o.DeepCopyObject().(client.Object))
	}
	for _, o := range w.Volumes {
		createVolumes(ctx, o.DeepCopyObject().(client.Object))
	}
	for _, p := range w.Bound {
		createOne(ctx, p.DeepCopy())
	}
	for _, p := range w.Gang {
		p = p.DeepCopy()
		p.UID = ""
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		for i := range p.Spec.ResourceClaims {
			if one := &p.Spec.ResourceClaims[i]; one.ResourceClaimTemplateName != nil {
				one.ResourceClaimTemplateName = p.Status.ResourceClaimStatuses[0].ResourceClaimName
			}
		}
		createOne(ctx, p)
	}
}

func createOne(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(api.Create(ctx, o)).To(Succeed(), "%T %s", o, o.GetName())
}

func createDevices(ctx context.Context, o client.Object) {
	GinkgoHelper()
	claim, is := o.(*resourcev1.ResourceClaim)
	switch {
	case !is:
		createOne(ctx, o)
	case metav1.GetControllerOf(claim) != nil:
		createOne(ctx, &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name},
			Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec},
		})
	default:
		status := claim.Status
		claim.UID = ""
		createOne(ctx, claim)
		if claim.Status = status; status.Allocation != nil {
			Expect(api.Status().Update(ctx, claim)).To(Succeed())
		}
	}
}

// createVolumes creates what volumes are about. A claim that has its volume names it, and is bound when this returns.
func createVolumes(ctx context.Context, o client.Object) {
	GinkgoHelper()
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef != nil {
			o.Spec.ClaimRef.UID = ""
		}
		createOne(ctx, o)
	case *corev1.PersistentVolumeClaim:
		o.UID, o.Annotations = "", nil
		createOne(ctx, o)
		if o.Spec.VolumeName == "" {
			return
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
			g.Expect(o.Status.Phase).To(Equal(corev1.ClaimBound))
		}).Should(Succeed(), o.Name)
	default:
		createOne(ctx, o)
	}
}

// kinds are those of which each world has its own objects.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&corev1.PodList{}, &resourcev1.ResourceClaimList{}, &resourcev1.ResourceClaimTemplateList{},
		&resourcev1.ResourceSliceList{}, &resourcev1.DeviceClassList{},
		&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &storagev1.StorageClassList{}, &corev1.NodeList{},
	}
}

// read is the world as the API server has it.
func read(ctx context.Context, required int) smallworld.World {
	GinkgoHelper()
	w := smallworld.World{Required: required}
	for _, list := range kinds() {
		for _, o := range all(ctx, list) {
			switch o := o.(type) {
			case *corev1.Node:
				w.Nodes = append(w.Nodes, o)
			case *corev1.Pod:
				if o.Spec.NodeName != "" {
					w.Bound = append(w.Bound, o)
				} else {
					w.Gang = append(w.Gang, o)
				}
			case *resourcev1.ResourceClaim, *resourcev1.ResourceClaimTemplate, *resourcev1.ResourceSlice, *resourcev1.DeviceClass:
				w.Devices = append(w.Devices, o)
			default:
				w.Volumes = append(w.Volumes, o)
			}
		}
	}
	return w
}

func all(ctx context.Context, list client.ObjectList) []runtime.Object {
	GinkgoHelper()
	Expect(api.List(ctx, list)).To(Succeed())
	items, err := meta.ExtractList(list)
	Expect(err).NotTo(HaveOccurred())
	return items
}

// deleteAll deletes the world. No controller removes its finalizers.
func deleteAll(ctx context.Context) {
	GinkgoHelper()
	for _, list := range kinds() {
		Eventually(ctx, func(g Gomega) {
			g.Expect(api.List(ctx, list)).To(Succeed())
			items, err := meta.ExtractList(list)
			g.Expect(err).NotTo(HaveOccurred())
			for _, item := range items {
				o := item.(client.Object)
				g.Expect(client.IgnoreNotFound(remove(ctx, o))).To(Succeed())
			}
			g.Expect(items).To(BeEmpty())
		}).Should(Succeed(), fmt.Sprintf("deleting all of %T", list))
	}
}

func remove(ctx context.Context, o client.Object) error {
	if len(o.GetFinalizers()) > 0 {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := api.Patch(ctx, o, patch); err != nil {
			return err
		}
	}
	err := api.Delete(ctx, o, client.GracePeriodSeconds(0))
	if apierrors.IsConflict(err) {
		return nil // deleted in the next round
	}
	return err
}

// describe writes down a world and its plan.
func describe(w *smallworld.World, plan *smallworld.Plan) string {
	var b strings.Builder
	if plan.Refusal == nil {
		fmt.Fprintf(&b, "planned in %q\n", plan.Domain.String())
		for _, p := range plan.Pods {
			fmt.Fprintf(&b, "  %s on %s\n", p.Name, p.Node)
		}
	}
	write := func(o client.Object) {
		o = o.DeepCopyObject().(client.Object)
		o.SetManagedFields(nil)
		text, err := yaml.Marshal(o)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&b, "--- # %T\n%s", o, text)
	}
	for _, n := range w.Nodes {
		write(n)
	}
	for _, p := range slices.Concat(w.Bound, w.Gang) {
		write(p)
	}
	for _, o := range slices.Concat(w.Volumes, w.Devices) {
		write(o.(client.Object))
	}
	return b.String()
}
