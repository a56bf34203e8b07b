// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

func TestChangePasses(t *testing.T) {
	for name, patch := range map[string]string{
		"replicas":                `{"spec":{"services":{"Worker":{"replicas":5}}}}`,
		"replicas left out again": `{"spec":{"services":{"Worker":{"replicas":null}}}}`,
		"nodeCount":               `{"spec":{"services":{"Worker":{"multinode":{"nodeCount":8}}}}}`,
		"labels":                  `{"metadata":{"labels":{"a":"b"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t)
			e.wantWarnings(func() error { return e.change(patch) })
		})
	}
}

func TestChangeIsRefused(t *testing.T) {
	tests := map[string]struct{ patch, path, text string }{
		"another profile":                  {`{"spec":{"topologyConstraint":{"topologyProfile":"h100"}}}`, "spec.topologyConstraint", "is immutable"},
		"no constraint":                    {`{"spec":{"topologyConstraint":null,"services":{"Worker":{"topologyConstraint":null}}}}`, "spec.topologyConstraint", "is immutable"},
		"a preferred domain":               {`{"spec":{"topologyConstraint":{"preferredPackDomain":"rack"}}}`, "spec.topologyConstraint", "is immutable"},
		"another constraint of a service":  {`{"spec":{"services":{"Worker":{"topologyConstraint":{"packDomain":"block"}}}}}`, "topologyConstraint", "is immutable"},
		"a constraint for another service": {`{"spec":{"services":{"Frontend":{"topologyConstraint":{"packDomain":"rack"}}}}}`, "topologyConstraint", "is immutable"},
		"a service less":                   {`{"spec":{"services":{"Frontend":null}}}`, "spec.services", "service topology is immutable"},
		"a service more":                   {`{"spec":{"services":{"Planner":{}}}}`, "spec.services", "service topology is immutable"},
		"single-node instead of multinode": {`{"spec":{"services":{"Worker":{"multinode":null}}}}`, "multinode", "cannot change node topology"},
		"a backend framework":              {`{"spec":{"backendFramework":"vllm"}}`, "spec.backendFramework", "is immutable"},
		"half a GPU":                       {`{"spec":{"services":{"Worker":{"resources":{"limits":{"gpu":"0.5"}}}}}}`, "spec.services[Worker].resources.limits.gpu", "must be a whole number"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t)
			e.wantRefused(e.change(tc.patch), tc.path, tc.text)
			e.wantRefused(e.change(tc.patch, client.DryRunAll), tc.path, tc.text)
		})
	}
}

// has writes to the status that Worker has so many replicas.
func (e *edited) has(replicas int32) {
	e.t.Helper()
	typed := &nvidiav1alpha1.DynamoGraphDeployment{}
	e.must(e.admin.Get(e.t.Context(), client.ObjectKeyFromObject(e.object), typed))
	typed.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: replicas}, "Frontend": {}}
	e.must(e.admin.Status().Update(e.t.Context(), typed))
}

func TestChangeOfTheProvider(t *testing.T) {
	const (
		key      = "metadata.annotations[trellis.dev/provider]"
		text     = "the provider is immutable while the deployment has pods (service Worker has 2 replicas); scale all services to 0 first"
		podGroup = `{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}}}`
		kai      = `{"metadata":{"annotations":{"trellis.dev/provider":"KAI"}}}`
		none     = `{"metadata":{"annotations":{"trellis.dev/provider":null}}}`
	)

	t.Run("passes while there are no pods, and again when there are none any more", func(t *testing.T) {
		e := newEdited(t)
		e.must(e.change(podGroup))
		e.must(e.change(kai))
		e.has(2)
		e.has(0)
		e.must(e.change(podGroup))
		e.must(e.change(none))
	})

	t.Run("is refused while there are pods: added, changed and removed", func(t *testing.T) {
		e := newEdited(t)
		e.has(2)
		e.wantRefused(e.change(podGroup), key, text)
		e.has(0)
		e.must(e.change(podGroup))
		e.has(2)
		e.wantRefused(e.change(kai), key, text)
		e.wantRefused(e.change(none), key, text)
		e.wantRefused(e.change(none, client.DryRunAll), key, text)
		t.Log("what else is changed passes, to scale to 0 above all")
		e.must(e.change(`{"metadata":{"labels":{"a":"b"}},"spec":{"services":{"Worker":{"replicas":0}}}}`))
	})

	t.Run("is refused in the edit that scales to 0: the pods are still there", func(t *testing.T) {
		e := newEdited(t)
		e.has(2)
		e.wantRefused(e.change(`{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}},"spec":{"services":{"Worker":{"replicas":0}}}}`), key, text)
	})

	t.Run("is refused when there is no such provider, pods or not", func(t *testing.T) {
		e := newEdited(t)
		e.wantRefused(e.change(`{"metadata":{"annotations":{"trellis.dev/provider":"Volcano"}}}`),
			key, `must be "auto" or "Gates" or "PodGroup" or "KAI" or "Grove"`)
	})
}

func TestChangeWithoutTheClusterTopology(t *testing.T) {
	orphaned := func(t *testing.T) *edited {
		t.Helper()
		e := newEdited(t)
		e.must(e.admin.Delete(t.Context(), topology("gb200")))
		return e
	}

	t.Run("passes metadata, at generation 1 and later", func(t *testing.T) {
		e := orphaned(t)
		if generation := e.object.GetGeneration(); generation != 1 {
			t.Errorf("generation %d, want 1", generation)
		}
		e.must(e.change(`{"metadata":{"annotations":{"a":"b"},"finalizers":["example.com/wait"]}}`))
		e.must(e.change(`{"spec":{"services":{"Worker":{"replicas":3}}}}`))
		e.must(e.change(`{"metadata":{"annotations":{"a":"c"},"finalizers":null}}`))
	})

	t.Run("passes the status", func(t *testing.T) {
		e := orphaned(t)
		typed := &nvidiav1alpha1.DynamoGraphDeployment{}
		e.must(e.admin.Get(t.Context(), client.ObjectKeyFromObject(e.object), typed))
		typed.Status.State = nvidiav1alpha1.StateFailed
		e.must(e.admin.Status().Update(t.Context(), typed))
	})

	t.Run("passes the deletion, and the end of a finalizer during it", func(t *testing.T) {
		e := orphaned(t)
		e.must(e.change(`{"metadata":{"finalizers":["example.com/wait"]}}`))
		e.must(e.admin.Delete(t.Context(), e.object.DeepCopy()))
		e.must(e.change(`{"metadata":{"labels":{"still":"here"}}}`))
		e.must(e.change(`{"metadata":{"finalizers":null}}`))
		e.wantGone(e.object)
	})
}

func TestChangeOfAClusterTopologyInUse(t *testing.T) {
	const (
		removed = `level "rack" is removed while in use; running pods stay where they are (default/llm)`
		deleted = `ClusterTopology "gb200" is in use; running pods stay, and gangs that need one of its levels wait until it is back (default/llm)`
	)

	t.Run("warns the admin who removes a level, and names the deployments", func(t *testing.T) {
		e := newEdited(t)
		withoutRack := func(opts ...client.UpdateOption) error {
			ct := topology("gb200")
			e.get(ct)
			ct.Spec.Levels = append(ct.Spec.Levels[:2], ct.Spec.Levels[3])
			return e.admin.Update(t.Context(), ct, opts...)
		}
		e.wantWarnings(func() error { return withoutRack(client.DryRunAll) }, removed)
		e.wantWarnings(func() error { return withoutRack() }, removed)
	})

	t.Run("warns the admin who deletes it", func(t *testing.T) {
		e := newEdited(t)
		e.wantWarnings(func() error { return e.admin.Delete(t.Context(), topology("gb200"), client.DryRunAll) }, deleted)
	})

	t.Run("says nothing when only the metadata changes", func(t *testing.T) {
		e := newEdited(t)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		e.wantWarnings(func() error { return e.admin.Patch(t.Context(), topology("gb200"), patch) })
	})
}

func TestAClusterTopologyIsRefusedWithPathAndFix(t *testing.T) {
	s := newServer(t)
	bad := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
	bad.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: "a"}, {Domain: "rack", Key: "b"}}
	s.wantRefused(s.tryCreate(bad), "spec.levels", "domain must be unique across all levels")
	bad.Spec.Levels, bad.Spec.NodeSelector = bad.Spec.Levels[:1], map[string]string{"pool": "not a value!"}
	s.wantRefused(s.tryCreate(bad), "spec.nodeSelector[pool]")
}
