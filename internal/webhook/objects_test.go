// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// packed is a deployment with all that this package decides about. {topology} stands for its ClusterTopology.
const packed = `
metadata: {name: llm}
spec:
  topologyConstraint: {topologyProfile: "{topology}", packDomain: zone}
  services:
    Frontend: {componentType: frontend}
    Worker:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 4}
      topologyConstraint: {packDomain: rack}
      extraPodSpec:
        tolerations: [{operator: Exists}]
        mainContainer: {image: i, resources: {limits: {cpu: 1000m}}}
`

// deploymentOf returns a deployment without a spec.
func deploymentOf(version, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("nvidia.com/" + version)
	u.SetKind("DynamoGraphDeployment")
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// readDeployment reads a manifest of v1alpha1 in which {topology} stands for a ClusterTopology. Main containers without an image get one.
func readDeployment(topology, text string) *unstructured.Unstructured {
	GinkgoHelper()
	object := deploymentOf("v1alpha1", "")
	content := manifest.Parse(GinkgoTB(), strings.ReplaceAll(text, "{topology}", topology))
	maps.Copy(object.Object, content)
	object.SetNamespace("default")
	withImages(object)
	return object
}

// withImages gives an image to each main container that has none.
func withImages(object *unstructured.Unstructured) {
	GinkgoHelper()
	components, _, _ := unstructured.NestedMap(object.Object, "spec", "services")
	for name, value := range components {
		if _, written := value.(map[string]any); !written {
			continue
		}
		path := []string{"spec", "services", name, "extraPodSpec", "mainContainer", "image"}
		if _, named, err := unstructured.NestedString(object.Object, path...); !named && err == nil {
			Expect(unstructured.SetNestedField(object.Object, "i", path...)).To(Succeed())
		}
	}
}

// topology is a ClusterTopology zone > block > rack > host.
func topology(name string) *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: "topology.kubernetes.io/zone"}, {Domain: "block", Key: "example.com/block"},
			{Domain: "rack", Key: "example.com/rack"}, {Domain: "host", Key: "kubernetes.io/hostname"},
		},
	}}
}

// edited is a deployment of v1alpha1 on the API server, which a test changes.
type edited struct {
	*server
	object *unstructured.Unstructured
}

// newEdited creates the deployment packed and its ClusterTopology.
func newEdited(ctx context.Context) *edited {
	GinkgoHelper()
	s := newServer(ctx)
	s.create(topology("gb200"))
	e := &edited{s, readDeployment("gb200", packed)}
	s.create(e.object)
	return e
}

// change applies a JSON merge patch.
func (e *edited) change(patch string, opts ...client.PatchOption) error {
	return e.admin.Patch(e.ctx, e.object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), opts...)
}

// now reads the deployment.
func (e *edited) now() *unstructured.Unstructured {
	GinkgoHelper()
	there := e.object.DeepCopy()
	e.get(there)
	return there
}

// wantReplicas fails the spec unless a component has so many replicas.
func (e *edited) wantReplicas(component string, want int64) {
	GinkgoHelper()
	got, _, err := unstructured.NestedInt64(e.now().Object, "spec", "services", component, "replicas")
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(want), "replicas of %s", component)
}
