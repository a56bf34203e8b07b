// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
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

var _ = Describe("A scaling adapter", func() {
	// A user keeps a manifest with a number of replicas in it and applies it again and again, while others scale the component.
	It("keeps the number that others set when the manifest is applied again", func(ctx SpecContext) {
		w := newWorld(ctx, "apply", racks(2, 8, "a/r0")...)
		file := filepath.Join(GinkgoT().TempDir(), "llm.yaml")
		Expect(os.WriteFile(file, []byte(withAdapterManifest), 0o600)).To(Succeed())
		p := w.planner("llm", nil)
		w.mustKubectl("apply", "-f", file)
		p.stable("Decode", 1)

		By("kubectl scale")
		w.mustKubectl("scale", "dgdsa/llm-decode", "--replicas=3")
		p.stable("Decode", 3)
		before, generation := w.uids(), w.dgd("llm").Generation

		By("the unchanged manifest is applied: nothing happens, and the user is warned")
		Expect(w.mustKubectl("apply", "-f", file)).To(ContainSubstring("spec.services[Decode].replicas stays 3"))
		w.mustKubectl("apply", "--server-side", "--force-conflicts", "-f", file)
		Expect(w.dgd("llm").Generation).To(Equal(generation))
		Expect(w.dgd("llm").Spec.Services["Decode"].Replicas).To(HaveValue(BeEquivalentTo(3)))

		By("so it is when the number is edited")
		out := w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"replicas":9}}}}`)
		Expect(out).To(ContainSubstring("kubectl scale dgdsa/llm-decode --replicas=9"))
		Expect(w.dgd("llm").Spec.Services["Decode"].Replicas).To(HaveValue(BeEquivalentTo(3)))

		By("a burst of changes ends with the last one; the replicas that were wanted all along are the same pods")
		for i := range 30 {
			p.scale("Decode", 3+i%5)
		}
		p.stable("Decode", 7)
		Expect(w.uids()).To(haveAllOf(before), "a pod of a replica that was always wanted is gone")

		By("the adapter is switched off: it goes, and the number stays, now the deployment's own")
		w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"scalingAdapter":{"enabled":false}}}}}`)
		w.until("the adapter is gone", func() error { return gone(w, &scalingAdapter{}, "llm-decode") })
		p.stable("Decode", 7)
		Expect(p.scale("Decode", 2)).To(BeTrue(), "there is an adapter still")
		p.stable("Decode", 2)

		By("switched on again it begins with that number, and goes with the deployment")
		w.mustKubectl("patch", "dynamographdeployments.v1alpha1.nvidia.com/llm", "--type=merge", "-p", `{"spec":{"services":{"Decode":{"scalingAdapter":{"enabled":true}}}}}`)
		w.until("the adapter is back", func() error { return w.c.Get(ctx, key(w.name, "llm-decode"), &scalingAdapter{}) })
		Expect(get(w, &scalingAdapter{}, w.name, "llm-decode").Spec.Replicas).To(BeEquivalentTo(2), "the number it begins with")
		w.mustKubectl("delete", "dgd/llm")
		w.until("the adapter is gone", func() error { return gone(w, &scalingAdapter{}, "llm-decode") })
	}, SpecTimeout(suite.Timeout()))

	// A real HorizontalPodAutoscaler needs no metrics to bring a component within its bounds.
	It("is scaled by a HorizontalPodAutoscaler", func(ctx SpecContext) {
		w := newWorld(ctx, "hpa", racks(2, 8, "a/r0")...)
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
	}, SpecTimeout(suite.Timeout()))
})

func gone(w *world, o client.Object, name string) error {
	err := w.c.Get(w.t.Context(), key(w.name, name), o)
	if err == nil {
		return errors.New("it is there")
	}
	return client.IgnoreNotFound(err)
}
