// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/internal/render"
)

// An orphan of which an immutable field differs is not adopted, and the error has the command that deletes it. What is wrong with an object of the owner's
// own is its own matter.
func TestOrphanThatCannotBeAdopted(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "1"}}
	refusing := interceptor.NewClient(fake.NewClientBuilder().WithObjects(owner).Build(), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return apierrors.NewInvalid(schema.GroupKind{Group: "grove.io", Kind: "PodCliqueSet"}, "g", nil)
		},
	})
	object := func(manager string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{manager: "differs"}}}
		out.SetGroupVersionKind(schema.GroupVersionKind{Group: "grove.io", Version: "v1alpha1", Kind: "PodCliqueSet"})
		out.SetNamespace("ns")
		out.SetName("g")
		out.SetOwnerReferences(owners)
		out.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager}})
		return out
	}
	w := Writer{Client: refusing, Live: refusing}
	for name, c := range map[string]struct {
		have *unstructured.Unstructured
		want string
	}{
		"an orphan":                   {object(render.FieldOwner), "; to delete it: kubectl delete -n ns podcliquesets.grove.io/g"},
		"of another owner, ownerless": {object("kubectl"), "PodCliqueSet g exists and does not belong to owner: it has no controller; it is left alone"},
		"its own, which is not valid": {object(render.FieldOwner, *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))), `PodCliqueSet.grove.io "g" is invalid`},
	} {
		if err := w.Apply(t.Context(), owner, object("wanted"), c.have); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
