// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
)

// keeping is a ClusterTopology and the object of a peer that is kept in step with it.
type keeping struct {
	t     *testing.T
	ct    *grovev1alpha1.ClusterTopology
	kind  string
	write func(context.Context, *grovev1alpha1.ClusterTopology) (string, error)
}

func newKeeping(t *testing.T, name, kind string, write func(context.Context, *grovev1alpha1.ClusterTopology) (string, error)) *keeping {
	t.Helper()
	k := &keeping{t: t, ct: providertest.Topology(), kind: kind, write: write}
	k.ct.Name, k.ct.UID = name, ""
	made(t, k.ct)
	t.Cleanup(func() {
		_ = client.Resource(resources[kind]).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return k
}

// keep brings the object in step, or says why not.
func (k *keeping) keep() string {
	k.t.Helper()
	why, err := k.write(k.t.Context(), k.ct)
	if err != nil {
		k.t.Fatal(err)
	}
	return why
}

func (k *keeping) get() *unstructured.Unstructured {
	k.t.Helper()
	object, err := client.Resource(resources[k.kind]).Get(k.t.Context(), k.ct.Name, metav1.GetOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	return object
}

// disown makes the object somebody else's.
func (k *keeping) disown() {
	k.t.Helper()
	object := k.get()
	object.SetOwnerReferences(nil)
	if _, err := client.Resource(resources[k.kind]).Update(k.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		k.t.Fatal(err)
	}
}
