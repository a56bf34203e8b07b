// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
)

func TestGroupsThatAnProviderConcerns(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := trellisv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	group := func(namespace, graph, name, workload string) *trellisv1alpha1.ScalingGroup {
		return &trellisv1alpha1.ScalingGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       trellisv1alpha1.ScalingGroupSpec{Graph: graph, Workload: workload},
		}
	}
	r := &Reconciler{
		Providers: provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{gates.Placer{}}}),
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			group("a", "g", "g-made-by-the-provider", "LeaderWorkerSet"), group("a", "g", "g-pods", ""),
			group("a", "h", "h-made-by-the-provider", "LeaderWorkerSet"), group("b", "g", "g-made-by-the-provider", "LeaderWorkerSet"),
		).Build(),
	}
	for name, tc := range map[string]struct {
		change metav1.ObjectMeta
		want   []string
	}{
		"an object of one graph": {metav1.ObjectMeta{Namespace: "a", Name: "g"}, []string{"a/g-made-by-the-provider"}},
		"the provider's state": {metav1.ObjectMeta{}, []string{
			"a/g-made-by-the-provider", "a/g-pods", "a/h-made-by-the-provider", "b/g-made-by-the-provider",
		}},
	} {
		var got []string
		for _, request := range r.concernedBy(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: tc.change}) {
			got = append(got, request.String())
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
