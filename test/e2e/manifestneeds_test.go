// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// poolFile defines the gateway's kind, which a cluster has from the inference extension.
const poolFile = needs + "/examples__backends__vllm__deploy__gaie__agg.needs.yaml"

// whyNotReady is what the deployments of the namespace say of themselves.
func (w *world) whyNotReady(ctx context.Context) string {
	dgds := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := w.c.List(ctx, dgds, client.InNamespace(w.name)); err != nil {
		return err.Error()
	}
	var parts []string
	for i := range dgds.Items {
		for _, c := range dgds.Items[i].Status.Conditions {
			if c.Status == metav1.ConditionFalse {
				parts = append(parts, fmt.Sprintf("%s: %s: %s", dgds.Items[i].Name, c.Type, c.Message))
			}
		}
	}
	return cmp.Or(strings.Join(parts, "; "), fmt.Sprintf("%d deployments, no condition is False", len(dgds.Items)))
}

// applyNeeds makes what the manifests in a file presuppose, as the administrator of a cluster does: claims with volumes, classes and templates of
// devices, classes of priority and of container runtimes, accounts, topologies, the endpoint picker's kind.
func (w *world) applyNeeds(file string) {
	w.t.Helper()
	claims, templates := map[string]*corev1.PersistentVolumeClaim{}, map[string]bool{}
	objects := w.objectsIn(w.filledIn(file))
	for _, o := range objects {
		switch o.GetKind() {
		case "PersistentVolumeClaim":
			claims[o.GetName()] = read[corev1.PersistentVolumeClaim](w.t, o)
		case "ResourceClaimTemplate":
			templates[o.GetName()] = true
			w.needDeviceClasses(read[resourcev1.ResourceClaimTemplate](w.t, o))
		}
	}
	for _, o := range objects {
		if o.GetKind() == "DynamoGraphDeployment" {
			w.needsOf(w.inBeta(o), claims, templates)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		w.needVolume(claims[name])
	}
}

func (w *world) inBeta(o *unstructured.Unstructured) *nvidiav1beta1.DynamoGraphDeployment {
	w.t.Helper()
	raw, err := o.MarshalJSON()
	w.must(err)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if raw, err = nvidiav1alpha1.ConvertJSON(raw, "v1beta1"); err == nil {
		err = json.Unmarshal(raw, dgd)
	}
	w.must(err)
	return dgd
}

func (w *world) needsOf(dgd *nvidiav1beta1.DynamoGraphDeployment, claims map[string]*corev1.PersistentVolumeClaim, templates map[string]bool) {
	w.t.Helper()
	in := render.Inputs{Provider: specs.Gates.Name}
	if c := dgd.Spec.TopologyConstraint; c != nil {
		in.Topology = &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: c.ClusterTopologyName}, Spec: grovev1alpha1.ClusterTopologySpec{
			Levels: []grovev1alpha1.TopologyLevel{
				{Domain: "zone", Key: zoneKey}, {Domain: "block", Key: "topology.trellis.dev/block"}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname},
			},
		}}
		w.need(in.Topology.DeepCopy())
	}
	g, err := render.Resolve(dgd, in)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, claim := range g.Claims().Created {
		claims[claim.Name] = claim
	}
	for name := range g.Claims().Needed {
		if claims[name] == nil {
			claims[name] = w.claim(name)
			w.need(claims[name].DeepCopy())
		}
	}
	if name := dgd.Spec.PriorityClassName; name != "" {
		w.need(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 10})
	}
	for _, c := range dgd.Spec.Components {
		if c.Type == nvidiav1beta1.ComponentTypeEPP {
			w.apply(poolFile)
		}
		pod := ptr.Deref(c.PodTemplate, corev1.PodTemplateSpec{}).Spec
		if name := pod.ServiceAccountName; name != "" {
			w.need(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if name := ptr.Deref(pod.RuntimeClassName, ""); name != "" {
			w.need(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name})
		}
		for _, r := range pod.ResourceClaims {
			if name := ptr.Deref(r.ResourceClaimTemplateName, ""); name != "" && !templates[name] {
				templates[name] = true
				w.needDeviceClasses(w.channel(name))
				w.need(w.channel(name))
			}
		}
	}
}

// need creates an object that may be there already.
func (w *world) need(o client.Object) {
	w.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	gvk, err := w.c.GroupVersionKindFor(o)
	if err != nil {
		w.t.Fatal(err)
	}
	u.SetGroupVersionKind(gvk)
	w.applyObject(u)
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: ptr.To("shared"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")}},
	}}
}

// needVolume makes the volume that a claim is bound to.
func (w *world) needVolume(claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	w.need(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + claim.Name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: ptr.Deref(claim.Spec.StorageClassName, ""),
		ClaimRef:               &corev1.ObjectReference{Namespace: w.name, Name: claim.Name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + claim.Name}},
	}})
}

// channel is the template that the driver of a compute domain makes.
func (w *world) channel(name string) *resourcev1.ResourceClaimTemplate {
	out := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: computeDomain}}}
	return out
}

// needDeviceClasses makes the classes that a template asks for, as the devices' driver does.
func (w *world) needDeviceClasses(template *resourcev1.ResourceClaimTemplate) {
	w.t.Helper()
	for _, r := range template.Spec.Spec.Devices.Requests {
		if r.Exactly != nil {
			class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: r.Exactly.DeviceClassName}}
			class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", r.Exactly.DeviceClassName)}}}
			w.need(class)
		}
	}
}
