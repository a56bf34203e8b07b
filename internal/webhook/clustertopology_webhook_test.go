// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

func userOf(name, topology string, domains ...string) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: topology}
	for _, domain := range domains {
		dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{
			Name: domain, TopologyConstraint: &nvidiav1beta1.TopologyConstraint{PackDomain: domain},
		})
	}
	return dgd
}

func TestTopologyValidator(t *testing.T) {
	going := userOf("going", "gb200", "rack")
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/wait"}, &metav1.Time{Time: metav1.Now().Time}
	users := []client.Object{userOf("racks", "gb200", "rack"), userOf("zones", "gb200", "zone"), userOf("others", "h100", "rack"), going}
	change := func(change func(*grovev1alpha1.ClusterTopology)) *grovev1alpha1.ClusterTopology {
		ct := gb200()
		change(ct)
		return ct
	}
	tests := map[string]struct {
		updated *grovev1alpha1.ClusterTopology
		listErr error
		want    []string
		refused bool
	}{
		"untouched": {updated: gb200()},
		"level removed": {
			updated: change(func(ct *grovev1alpha1.ClusterTopology) { ct.Spec.Levels = ct.Spec.Levels[:1] }),
			want:    []string{`level "rack" is removed while in use; running pods stay where they are (team/racks)`},
		},
		"deleted": {want: []string{`ClusterTopology "gb200" is in use; running pods stay, and gangs that need one of its levels wait until it is back (team/racks, team/zones)`}},
		"finalizer removed while it is being deleted": {updated: change(func(ct *grovev1alpha1.ClusterTopology) {
			ct.DeletionTimestamp, ct.Spec.Levels = &metav1.Time{Time: metav1.Now().Time}, nil
		})},
		"broken": {updated: change(func(ct *grovev1alpha1.ClusterTopology) { ct.Spec.Levels = nil }), refused: true},
		"users cannot be looked up": {
			listErr: errors.New("no cache"),
			want:    []string{`could not look up which DynamoGraphDeployments use ClusterTopology "gb200": no cache`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(users...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if tc.listErr != nil {
						return tc.listErr
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			v := &topologyValidator{deployments: reader}
			var warnings []string
			var err error
			if tc.updated == nil {
				warnings, err = v.ValidateDelete(t.Context(), gb200())
			} else {
				warnings, err = v.ValidateUpdate(t.Context(), gb200(), tc.updated)
			}
			if (err != nil) != tc.refused {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
