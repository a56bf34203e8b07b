// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
)

// channelTemplate is a claim template as NVIDIA's driver makes it for a ComputeDomain.
func channelTemplate(name, class string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}}
	return t
}

// A deployment whose pods share a ComputeDomain is warned when its topology has cliques and it is not packed into one. The ComputeDomain may be known by
// its own object or by its claim template alone, and whatever cannot be read causes no warning.
func TestCliquesAreReadOnCreate(t *testing.T) {
	domain := &nvlink.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cd"}}
	domain.Spec.Channel.ResourceClaimTemplate.Name = "channel"
	elsewhere := domain.DeepCopyObject().(*nvlink.ComputeDomain)
	elsewhere.Namespace = "other"
	levels := []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}, {Domain: "clique", Key: nvlink.CliqueLabel}}
	const warned = `pods of the ComputeDomain cd may be placed in two NVLink cliques, which share no memory: set spec.topologyConstraint.packDomain to "clique" (decode, prefill)`
	for name, tc := range map[string]struct {
		objects []client.Object
		levels  []grovev1alpha1.TopologyLevel
		fails   bool
		reads   bool
		want    []string
	}{
		"by its object":               {[]client.Object{domain}, levels, false, true, []string{warned}},
		"by its template":             {[]client.Object{channelTemplate("channel", "compute-domain-default-channel.nvidia.com")}, levels, false, true, []string{`pods of the ComputeDomain channel may be placed in two NVLink cliques, which share no memory: set spec.topologyConstraint.packDomain to "clique" (decode, prefill)`}},
		"claims of another class":     {[]client.Object{channelTemplate("channel", "gpu.nvidia.com")}, levels, false, true, nil},
		"of another namespace":        {[]client.Object{elsewhere}, levels, false, true, nil},
		"nothing can be read":         {[]client.Object{domain}, levels, true, true, nil},
		"the topology has no cliques": {[]client.Object{domain}, levels[:1], false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := testScheme()
			for _, err := range []error{nvlink.AddToScheme(scheme), resourcev1.AddToScheme(scheme)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			reads := false
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if reads = true; tc.fails {
						return errors.New("not now")
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm"}}
			for _, component := range []string{"decode", "prefill"} {
				template := &corev1.PodTemplateSpec{}
				template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("channel")}}
				dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: component, PodTemplate: template})
			}
			topology := &grovev1alpha1.ClusterTopology{Spec: grovev1alpha1.ClusterTopologySpec{Levels: tc.levels}}
			var got []string
			for _, line := range (&deploymentValidator{live: live}).cliques(t.Context(), dgd, topology) {
				got = append(got, line.In(""))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || reads != tc.reads {
				t.Errorf("read %t, warnings (-want +got):\n%s", reads, diff)
			}
		})
	}
}
