// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

func TestEditOf(t *testing.T) {
	owns := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	all := owns(FieldOwner, "", `{"f:spec":{"f:roles":{},"f:revision":{},"f:rollout":{"f:maxSurge":{}}}}`)
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    *Edit
	}{
		"no managed fields":                     {nil, nil},
		"Trellis owns all":                      {[]metav1.ManagedFieldsEntry{all}, nil},
		"another client owns the same values":   {[]metav1.ManagedFieldsEntry{all, owns("kubectl", "", `{"f:spec":{"f:roles":{}}}`)}, nil},
		"another client writes metadata":        {[]metav1.ManagedFieldsEntry{all, owns("kubectl", "", `{"f:metadata":{"f:labels":{"f:a":{}}}}`)}, nil},
		"another client writes the status":      {[]metav1.ManagedFieldsEntry{all, owns("kubectl", "status", `{"f:spec":{"f:input":{}}}`)}, nil},
		"another client created all":            {[]metav1.ManagedFieldsEntry{owns("velero", "", `{"f:spec":{"f:roles":{}}}`)}, nil},
		"entries that cannot be read":           {[]metav1.ManagedFieldsEntry{all, owns("kubectl", "", `{`), {Manager: "none"}}, nil},
		"another client took a field":           {[]metav1.ManagedFieldsEntry{all, owns("kubectl-edit", "", `{"f:spec":{"f:input":{"f:hash":{}}}}`)}, &Edit{[]string{"input"}, []string{"kubectl-edit"}}},
		"another client took a part of a field": {[]metav1.ManagedFieldsEntry{all, owns("a", "", `{"f:spec":{"f:rollout":{"f:recreate":{}}}}`)}, &Edit{[]string{"rollout"}, []string{"a"}}},
		"by several clients": {
			[]metav1.ManagedFieldsEntry{
				owns(FieldOwner, "", `{"f:spec":{"f:graph":{}}}`), owns("b", "", `{"f:spec":{"f:roles":{},"f:revision":{}}}`),
				owns("a", "scale", `{"f:spec":{"f:pods":{}}}`),
			},
			&Edit{[]string{"pods", "revision", "roles"}, []string{"a", "b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
			if diff := cmp.Diff(tc.want, EditOf(sg)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := StripGroup(sg); err != nil || (len(sg.ManagedFields) > 0) != (tc.want != nil) {
				t.Errorf("%d managed fields stay, %v", len(sg.ManagedFields), err)
			}
		})
	}
}
