// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/internal/quota"
)

// Missing rights on AdmissionChecks are told to all deployments in queues once, and that they were given, too.
func TestActivateWithoutRights(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controllerName": quota.CheckController}}}
	check.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("AdmissionCheck"))
	check.SetName("place")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "admissionchecks"}, "", errors.New("no"))
	var list, patch error
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			into.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*check}
			return list
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return patch
		},
	})
	told := 0
	a := &activator{client: c, live: c, denied: &quota.Denied{}, tell: func(context.Context) { told++ }}
	for i, step := range []struct {
		list, patch error
		denied      bool
		fails       bool
		told        int
	}{
		{told: 0},
		{list: forbidden, denied: true, told: 1},
		{list: forbidden, denied: true, told: 1},
		{patch: forbidden, denied: true, told: 1},
		{told: 2},
		{list: errors.New("no route"), fails: true, told: 2},
	} {
		list, patch = step.list, step.patch
		err := a.activate(t.Context())
		why := a.denied.Why()
		if (err != nil) != step.fails || (why != "") != step.denied || told != step.told {
			t.Errorf("step %d: %v, denied %q, told %d times", i, err, why, told)
		}
		if step.denied && !strings.Contains(why, "config/kueue-placement") {
			t.Errorf("step %d: %q does not name the rights", i, why)
		}
	}
}
