// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// splitWorker is a component of split. Its pods become Ready some seconds after their programs have started.
const splitWorker = `
  - name: %[1]s
    type: %[1]s
    replicas: 2
    podTemplate:
      spec:
        terminationGracePeriodSeconds: 2
        containers:
        - {name: main, env: [{name: READY, value: 8s}], ` + peerContainer + "}"

// split is a deployment whose workers serve in pairs.
var split = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: split}
spec:
  components:` + fmt.Sprintf(splitWorker, "prefill") + fmt.Sprintf(splitWorker, "decode")

// generations counts the Ready workers by generation and component.
type generations map[string]map[string]int

func generationsOf(pods map[string]*corev1.Pod) generations {
	g := generations{}
	for _, pod := range pods {
		if !render.PodReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		generation := pod.Labels[render.LabelWorkerHash]
		if g[generation] == nil {
			g[generation] = map[string]int{}
		}
		g[generation][pod.Labels[render.LabelComponent]]++
	}
	return g
}

// serving returns a generation with Ready workers of both components; "" without one.
func (g generations) serving() string {
	for generation, components := range g {
		if len(components) == 2 {
			return generation
		}
	}
	return ""
}

// only reports whether all four workers are Ready and belong to one generation other than before.
func (g generations) only(before string) bool {
	now := g.serving()
	return len(g) == 1 && now != before && g[now]["prefill"] == 2 && g[now]["decode"] == 2
}

var _ = Describe("Workers of two components that take a while to be Ready", func() {
	It("serve in one generation at any time of an update", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(split)
		w.ready("split")
		list := &corev1.PodList{}
		Expect(w.api.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		pods := map[string]*corev1.Pod{}
		for i := range list.Items {
			pods[list.Items[i].Name] = &list.Items[i]
		}
		before := generationsOf(pods).serving()
		Expect(before).NotTo(BeEmpty())
		seen, err := w.api.Watch(ctx, &corev1.PodList{}, client.InNamespace(w.namespace), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
		})
		Expect(err).NotTo(HaveOccurred())
		defer seen.Stop()
		w.update("split")
		both := false
		for now := generationsOf(pods); !now.only(before); now = generationsOf(pods) {
			Expect(now.serving()).NotTo(BeEmpty(), "Ready workers by generation and component: %v", now)
			both = both || len(now) == 2
			event := <-seen.ResultChan()
			pod, ok := event.Object.(*corev1.Pod)
			Expect(ok).To(BeTrue(), "the watch has ended: %+v", event)
			if pods[pod.Name] = pod; event.Type == watch.Deleted {
				delete(pods, pod.Name)
			}
		}
		Expect(both).To(BeTrue(), "both generations had Ready workers at some time")
		w.ready("split")
	})
})
