// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/render"
)

// componentOf has nodes pods with one container that has so many GPUs, or a claim.
func componentOf(name string, nodes int32, gpu int64, claim *corev1.PodResourceClaim) render.Component {
	main := corev1.Container{Name: "main"}
	spec := corev1.PodSpec{}
	if gpu > 0 {
		main.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpu, resource.DecimalSI)}
	}
	if claim != nil {
		spec.ResourceClaims = []corev1.PodResourceClaim{*claim}
		main.Resources.Claims = []corev1.ResourceClaim{{Name: claim.Name}}
	}
	spec.Containers = []corev1.Container{main}
	return render.Component{Name: name, Roles: []trellisv1alpha1.Role{{Name: "main", Count: nodes, Template: corev1.PodTemplateSpec{Spec: spec}}}}
}

// TestCountGPUs: what depends on a claim is known once all is there that it names. One component without an answer takes none from the others.
func TestCountGPUs(t *testing.T) {
	requests := []resourcev1.DeviceRequest{{Name: "g", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Count: 2}}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	template.Spec.Spec.Devices.Requests = requests
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	claim.Spec.Devices.Requests = requests
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}
	wanted := &render.Graph{Namespace: "ns", Components: []render.Component{
		componentOf("none", 2, 0, nil), componentOf("scalar", 2, 8, nil),
		componentOf("own", 3, 0, &corev1.PodResourceClaim{Name: "x", ResourceClaimTemplateName: ptr.To("t")}),
		componentOf("shared", 3, 0, &corev1.PodResourceClaim{Name: "x", ResourceClaimName: ptr.To("c")}),
	}}
	always := map[string]gpus.Shape{"none": {}, "scalar": {PerEngine: 16, PerReplica: 16}}
	with := func(more map[string]gpus.Shape) map[string]gpus.Shape {
		for name, shape := range always {
			more[name] = shape
		}
		return more
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		refused bool
		want    map[string]gpus.Shape
	}{
		"all there":                   {[]client.Object{template, claim, class}, false, with(map[string]gpus.Shape{"own": {PerEngine: 6, PerReplica: 6}, "shared": {PerEngine: 2, PerReplica: 2}})},
		"no template":                 {[]client.Object{claim, class}, false, with(map[string]gpus.Shape{"shared": {PerEngine: 2, PerReplica: 2}})},
		"no class":                    {[]client.Object{template, claim}, false, always},
		"nothing may be read of them": {[]client.Object{template, claim, class}, true, always},
	} {
		scheme := runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if tc.refused {
					return errors.New("refused")
				}
				return c.Get(ctx, key, object, options...)
			},
		})
		got := (&Reconciler{Live: live}).countGPUs(t.Context(), wanted)
		if diff := cmp.Diff(tc.want, got.of); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !got.claims {
			t.Errorf("%s: the claims are not read again", name)
		}
	}
	plain := (&Reconciler{}).countGPUs(t.Context(), &render.Graph{Components: wanted.Components[:2]})
	if diff := cmp.Diff(always, plain.of); diff != "" || plain.claims {
		t.Errorf("without claims nothing is read: %s", diff)
	}
}

// TestGPUsInStatus: none is 0, and what is not known is left out, also where it was known before.
func TestGPUsInStatus(t *testing.T) {
	o := fine()
	gpusOf := func() [2]*int64 {
		c := statusOf(o, resolved, nil, nil).Components["work"]
		return [2]*int64{c.GPUsPerEngine, c.GPUsPerReplica}
	}
	o.shapes = shapes{of: map[string]gpus.Shape{"work": {PerEngine: 8, PerReplica: 9}}}
	if diff := cmp.Diff([2]*int64{ptr.To[int64](8), ptr.To[int64](9)}, gpusOf()); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	o.shapes = shapes{of: map[string]gpus.Shape{"work": {}}}
	if diff := cmp.Diff([2]*int64{ptr.To[int64](0), ptr.To[int64](0)}, gpusOf()); diff != "" {
		t.Errorf("none (-want +got):\n%s", diff)
	}
	o.dgd.Status = statusOf(o, resolved, nil, nil)
	o.shapes = shapes{}
	if diff := cmp.Diff([2]*int64{}, gpusOf()); diff != "" {
		t.Errorf("not known any more (-want +got):\n%s", diff)
	}
	if c := statusOf(o, nil, &problem{"Invalid", "m"}, nil).Components["work"]; c.GPUsPerEngine != nil || c.GPUsPerReplica != nil {
		t.Errorf("of a deployment that cannot be resolved: %+v", c)
	}
}
