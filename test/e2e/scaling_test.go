// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

type scalingAdapter = nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter

func withAdapter(s *nvidiav1alpha1.ServiceSpec) *nvidiav1alpha1.ServiceSpec {
	s.ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
	return s
}

// kubectl runs the sandbox's kubectl in the world's namespace and returns all that it printed.
func (w *world) kubectl(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(w.cluster.Assets(), "kubectl"), append([]string{"-n", w.name}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig(), "KUBECACHEDIR="+w.t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) mustKubectl(args ...string) string {
	w.t.Helper()
	out, err := w.kubectl(args...)
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

const withAdapterManifest = `apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: llm}
spec:
  services:
    Decode:
      componentType: worker
      replicas: 1
      scalingAdapter: {enabled: true}
      resources: {limits: {gpu: "1"}}
      extraPodSpec: {nodeSelector: {e2e.trellis.dev/pool: apply}, mainContainer: {image: example.com/vllm:1}}
`

// Somebody keeps a manifest with a number of replicas in it and applies it again and again, while others scale the service.
func TestManifestAndScalingAdapter(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "apply", racks(2, 8, "a/r0")...)
	file := filepath.Join(t.TempDir(), "llm.yaml")
	if err := os.WriteFile(file, []byte(withAdapterManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.planner("llm", nil)
	w.mustKubectl("apply", "-f", file)
	p.stable("Decode", 1)

	t.Log("kubectl scale")
	w.mustKubectl("scale", "dgdsa/llm-decode", "--replicas=3")
	p.stable("Decode", 3)
	before, generation := w.uids(), w.dgd("llm").Generation

	t.Log("the unchanged manifest is applied: nothing happens, and the user is warned")
	if out := w.mustKubectl("apply", "-f", file); !strings.Contains(out, "spec.services[Decode].replicas stays 3") {
		t.Errorf("kubectl apply says:\n%s", out)
	}
	w.mustKubectl("apply", "--server-side", "--force-conflicts", "-f", file)
	if dgd := w.dgd("llm"); dgd.Generation != generation || *dgd.Spec.Services["Decode"].Replicas != 3 {
		t.Errorf("generation %d -> %d, replicas %d", generation, dgd.Generation, *dgd.Spec.Services["Decode"].Replicas)
	}

	t.Log("so it is when the number is edited")
	out := w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"replicas":9}}}}`)
	if n := *w.dgd("llm").Spec.Services["Decode"].Replicas; n != 3 || !strings.Contains(out, "kubectl scale dgdsa/llm-decode --replicas=9") {
		t.Errorf("%d replicas, and kubectl patch says:\n%s", n, out)
	}

	t.Log("a burst of changes ends with the last one; the replicas that were wanted all along are the same pods")
	for i := range 30 {
		p.scale("Decode", 3+i%5)
	}
	p.stable("Decode", 7)
	after := w.uids()
	for uid := range before {
		if !after[uid] {
			t.Errorf("a pod of a replica that was always wanted is gone")
		}
	}

	t.Log("the adapter is switched off: it goes, and the number stays, now the deployment's own")
	w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"scalingAdapter":{"enabled":false}}}}}`)
	w.until("the adapter is gone", func() error { return gone(w, &scalingAdapter{}, "llm-decode") })
	p.stable("Decode", 7)
	if !p.scale("Decode", 2) {
		t.Error("there is an adapter still")
	}
	p.stable("Decode", 2)

	t.Log("switched on again it begins with that number, and goes with the deployment")
	w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"scalingAdapter":{"enabled":true}}}}}`)
	w.until("the adapter is back", func() error { return w.c.Get(t.Context(), key(w.name, "llm-decode"), &scalingAdapter{}) })
	if n := get(w, &scalingAdapter{}, w.name, "llm-decode").Spec.Replicas; n != 2 {
		t.Errorf("it begins with %d replicas, want 2", n)
	}
	w.mustKubectl("delete", "dgd/llm")
	w.until("the adapter is gone", func() error { return gone(w, &scalingAdapter{}, "llm-decode") })
}

func gone(w *world, o client.Object, name string) error {
	err := w.c.Get(w.t.Context(), key(w.name, name), o)
	if err == nil {
		return errors.New("it is there")
	}
	return client.IgnoreNotFound(err)
}

// A real HorizontalPodAutoscaler needs no metrics to bring a service within its bounds.
func TestHorizontalPodAutoscaler(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "hpa", racks(2, 8, "a/r0")...)
	w.create(w.graphOf("llm", "zone", services{"Decode": withAdapter(worker(1, 1, 2, ""))}))
	w.ready("llm")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "decode"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: nvidiav1alpha1.GroupVersion.String(), Kind: "DynamoGraphDeploymentScalingAdapter", Name: "llm-decode",
			},
			MinReplicas: new(int32(3)), MaxReplicas: 5,
		},
	}
	w.create(hpa)
	p := w.planner("llm", nil)
	p.stable("Decode", 3)
}
