// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
)

// claimTemplate asks for a device of a class.
func claimTemplate(name, class string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "x", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}}
	return t
}

// Placed reports which pods of a ComputeDomain are in which clique, and nothing of claims that are no channels: what is one is read from the claim templates.
func TestPlacedNamesCliques(t *testing.T) {
	role := trellisv1alpha1.Role{Name: render.RoleMain, Count: 1}
	for _, name := range []string{"channel", "gpu", "gone"} {
		claim := corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To(name)}
		role.Template.Spec.ResourceClaims = append(role.Template.Spec.ResourceClaims, claim)
	}
	scheme := runtime.NewScheme()
	if err := resourcev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		claimTemplate("channel", "compute-domain-default-channel.nvidia.com"), claimTemplate("gpu", "gpu.nvidia.com"),
	).Build()
	wanted := &render.Graph{Namespace: "ns", Components: []render.Component{{Name: "decode", Roles: []trellisv1alpha1.Role{role}}}}

	o := observed{dgd: &nvidiav1beta1.DynamoGraphDeployment{}, judged: true, shapes: (&Reconciler{Live: live}).countGPUs(t.Context(), wanted)}
	two := nvlink.CliquesOf([]nvlink.Seat{{Replica: "decode-0", Clique: "7.1"}, {Replica: "prefill-0", Clique: "7.2"}})
	o.result = gang.Result{Wanted: 2, Placed: 2, Cliques: []gang.Claimed{{Template: "channel", Cliques: two}, {Template: "gone", Cliques: two}, {Template: "gpu", Cliques: two}}}
	const want = "all 2 packed replicas are placed. NVLink domain of the claims channel is in 2 cliques, which share no memory: " +
		"decode-0 (1 pod) in clique 7.1; prefill-0 (1 pod) in clique 7.2"
	if c := placedCondition(o, nil, nil); c == nil || c.message != want {
		t.Errorf("Placed: %+v, want %s", c, want)
	}

	one := nvlink.CliquesOf([]nvlink.Seat{{Replica: "decode-0", Clique: "7.1"}})
	o.result.Cliques = nil
	for i := range 10 {
		o.result.Cliques = append(o.result.Cliques, gang.Claimed{Template: fmt.Sprintf("own-%d", i), Cliques: one, Own: true})
	}
	if c := placedCondition(o, nil, nil); c == nil || !strings.HasSuffix(c.message, "own-7: decode-0 (1 pod) in clique 7.1. 2 more NVLink domains") {
		t.Errorf("Placed with domains of replicas: %+v", c)
	}
}
