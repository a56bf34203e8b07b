// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/sandbox"
)

const (
	samples = "../../../shared/manifests"
	needs   = "../../internal/graph/testdata/manifests"
)

// roomy are the samples whose pods take whole nodes, or the few nodes of a special kind: they go first, before others scatter over them.
var roomy = []string{"topology-aware-scheduling", "deepseek", "glm-5", "llama-3-70b__vllm__disagg-multi-node"}

// Every manifest that users are known to have, with what it presupposes, becomes Ready as it is.
func TestManifestsBecomeReady(t *testing.T) {
	files, _ := filepath.Glob(samples + "/*.yaml")
	if len(files) == 0 {
		t.Skip("no samples beside the repository")
	}
	t.Parallel()
	e := newEnvironment(t, "manifests", func(o *sandbox.Options) {
		o.Manager.Args = []string{"--requeue-after=" + requeueAfter.String()}
	})
	e.addSampleNodes(t)
	isRoomy := func(file string) bool {
		return slices.ContainsFunc(roomy, func(part string) bool { return strings.Contains(file, part) })
	}
	for _, first := range []bool{true, false} {
		t.Run(map[bool]string{true: "whole nodes", false: "the rest"}[first], func(t *testing.T) {
			for i, file := range files {
				if isRoomy(file) == first {
					t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
						t.Parallel()
						e.manifestBecomesReady(t, file, fmt.Sprintf("sample-%d", i))
					})
				}
			}
		})
	}
}

func (e environment) manifestBecomesReady(t *testing.T, file, namespace string) {
	w := &world{environment: e, t: t, name: namespace}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.describe(t.Context()))
		}
	})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.apply(filepath.Join(needs, strings.TrimSuffix(filepath.Base(file), ".yaml")+".needs.yaml"))
	w.apply(file)
	for _, dgd := range list(w, &nvidiav1alpha1.DynamoGraphDeploymentList{}).Items {
		w.ready(dgd.Name)
		w.tellsWhatIsNotCounted(dgd.Name)
	}
	w.claimsAreUsed()
}

// tellsWhatIsNotCounted: a packed pod that claims devices is said not to be counted for them.
func (w *world) tellsWhatIsNotCounted(name string) {
	w.t.Helper()
	for service, spec := range w.dgd(name).Spec.Services {
		if spec.Multinode != nil && spec.ExtraPodSpec != nil && spec.ExtraPodSpec.PodSpec != nil && len(spec.ExtraPodSpec.ResourceClaims) > 0 {
			w.hasCondition(name, nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced", "Resource claims of", service, "are not counted")
		}
	}
}

// claimsAreUsed: device claims were made and allocated, so the fixtures stand for what they should.
func (w *world) claimsAreUsed() {
	w.t.Helper()
	for _, pod := range w.all() {
		if len(pod.Spec.ResourceClaims) > 0 && len(pod.Status.ResourceClaimStatuses) == 0 {
			w.t.Errorf("pod %s runs without its device claims", pod.Name)
		}
	}
}

// apply creates the objects of a file as kubectl does after a user filled in the blanks. Kinds that the cluster does not have are left out.
func (w *world) apply(file string) {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.NewReplacer(
		"${K8S_NAMESPACE}", w.name, "<your-namespace>", w.name, "this-namespace", w.name, "${STORAGE_CLASS_NAME}", "shared",
		"${DYNAMO_IMAGE}", "example.com/dynamo:1", "${DYNAMO_VLLM_IMAGE}", "example.com/vllm:1", "${IMAGE}", "example.com/vllm:1",
		"${MODEL_NAME}", "tiny/model", "<your-registry>", "example.com",
	).Replace(string(raw))
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.t.Fatalf("%s: %v", file, err)
		}
		if o.Object != nil {
			w.applyObject(o)
		}
	}
}

func (w *world) applyObject(o *unstructured.Unstructured) {
	w.t.Helper()
	mapping, err := w.c.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) {
		w.t.Logf("%s %s: the cluster has no such kind", o.GetKind(), o.GetName())
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		o.SetNamespace(w.name)
	}
	if err := w.c.Create(w.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// addSampleNodes makes the hardware that the samples were written for: nodes of 8 GPUs in racks, blocks and zones; nodes of 4 GPUs with
// another processor, network cards and channels between them; a node with GPUs of another maker.
func (e environment) addSampleNodes(t *testing.T) {
	t.Helper()
	var nodes []corev1.Node
	var devices []*resourcev1.ResourceSlice
	for i := range 44 {
		nodes = append(nodes, sampleNode(fmt.Sprintf("big-%d", i), 8, map[string]string{
			zoneKey: fmt.Sprintf("z%d", i/24), "topology.trellis.dev/block": fmt.Sprintf("b%d", i%24/8), rackKey: fmt.Sprintf("r%d", i%24/4),
			"nvidia.com/gpu.present": "true", "karpenter.sh/nodepool": "general-medium-storage",
		}))
	}
	for i := range 24 {
		node := sampleNode(fmt.Sprintf("arm-%d", i), 4, map[string]string{corev1.LabelArchStable: "arm64", "nvidia.com/gpu.product": "NVIDIA-GB200"})
		nodes = append(nodes, node)
		devices = append(devices, sampleSlice(node.Name, "compute-domain.example.com", 4))
	}
	nodes = append(nodes, sampleNode("other-0", 0, nil))
	devices = append(devices, sampleSlice("other-0", "gpu.intel.com", 4))
	if err := e.cluster.AddNodes(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	for _, slice := range devices {
		if err := e.c.Create(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
}

func sampleNode(name string, gpus int, labels map[string]string) corev1.Node {
	node := sandbox.NewNode(name, gpus, labels)
	node.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("1Ti")
	node.Status.Allocatable["vpc.amazonaws.com/efa"] = resource.MustParse(fmt.Sprint(gpus))
	return node
}

// sampleSlice publishes the devices of a node as a driver would.
func sampleSlice(node, driver string, devices int) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	return slice
}
