// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// duo is a gang of two pods in one rack, and a router. The follower looks up its leader one second after its start; engines do so later.
const duo = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: duo}
spec:
  topologyConstraint: {clusterTopologyName: hall, packDomain: zone}
  components:
  - name: Router
    type: frontend
    podTemplate:
      spec:
        terminationGracePeriodSeconds: 5
        tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
        containers: [{name: main, image: "localhost/peer:1", command: [/bin/peer], ` + peerProbes + `}]
  - name: Worker
    type: worker
    multinode: {nodeCount: 2}
    topologyConstraint: {packDomain: rack}
    podTemplate:
      spec:
        terminationGracePeriodSeconds: 5
        tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
        containers:
        - {name: main, image: "localhost/peer:1", env: [{name: SIZE, value: "2"}, {name: IMPORT, value: 1s}],
          resources: {limits: {nvidia.com/gpu: "8"}}, ` + peerProbes + `}
`

// half is duo with half of the GPUs of both hosts, so that two gangs fit into a rack.
var half = strings.NewReplacer(
	`nvidia.com/gpu: "8"`, `nvidia.com/gpu: "4"`,
	"metadata: {name: duo}", `metadata: {name: duo, annotations: {trellis.dev/distinct-hosts: "true"}}`,
).Replace(duo)

// gang returns the pods of a gang of two: leader and follower.
func (w *world) gang() (leader, follower *corev1.Pod) {
	GinkgoHelper()
	pods := w.pods("Worker")
	Expect(pods).To(HaveLen(2))
	return &pods[0], &pods[1]
}

// exchanged waits until the two pods of the gang have exchanged data at their current addresses, and reports each answer of the DNS server
// to the follower with its time.
func (w *world) exchanged(what string) {
	GinkgoHelper()
	w.until("the gang has exchanged data", func() error {
		leader, follower := w.gang()
		led, err := ask(w.ctx, leader)
		if err != nil {
			return err
		}
		followed, err := ask(w.ctx, follower)
		if err != nil {
			return err
		}
		last := len(followed.Lookups) - 1
		switch {
		case followed.Exchanges == 0 || led.Exchanges == 0:
			return errors.New("no data were exchanged")
		case last < 0 || followed.Lookups[last].Address != leader.Status.PodIP:
			return fmt.Errorf("%s is %+v, the leader has %s", followed.Leader, followed.Lookups, leader.Status.PodIP)
		case !slices.Contains(slices.Collect(maps.Values(led.Pods)), follower.Status.PodIP):
			return fmt.Errorf("the leader knows %v, the follower has %s", led.Pods, follower.Status.PodIP)
		}
		AddReportEntry(what, fmt.Sprintf("%s, which has %s, by seconds after the start: %+v", followed.Leader, leader.Status.PodIP,
			followed.Lookups), ReportEntryVisibilityAlways)
		return nil
	})
}

// exchangedWithout is exchanged for a recreated gang. It also checks that the follower never got an address of the former pods.
func (w *world) exchangedWithout(what string, former ...*corev1.Pod) {
	GinkgoHelper()
	w.exchanged(what)
	_, follower := w.gang()
	seen, err := ask(w.ctx, follower)
	Expect(err).NotTo(HaveOccurred())
	for _, lookup := range seen.Lookups {
		for _, pod := range former {
			Expect(lookup.Address).NotTo(Equal(pod.Status.PodIP), "the address of the former pod "+pod.Name)
		}
	}
}

// update changes the template of all workers, so that their pods are replaced.
func (w *world) update(name string) {
	GinkgoHelper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	w.until("the update is stored", func() error {
		if err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, dgd); err != nil {
			return err
		}
		for i := range dgd.Spec.Components {
			if c := &dgd.Spec.Components[i]; c.Type != nvidiav1beta1.ComponentTypeFrontend {
				main := &c.PodTemplate.Spec.Containers[0]
				main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("UPDATE_%d", dgd.Generation), Value: "1"})
			}
		}
		return w.api.Update(w.ctx, dgd)
	})
}

var _ = Describe("A packed gang of two pods and a router", func() {
	It("finds its leader by the name that it gets, and again after a pod was lost", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.measured("Ready at first", func() {
			w.apply(half)
			w.ready("duo")
		})
		leader, follower := w.gang()
		Expect(rackOf(ctx, leader)).To(Equal(rackOf(ctx, follower)), "the rack of both")
		Expect(leader.Spec.NodeName).NotTo(Equal(follower.Spec.NodeName))
		w.exchanged("names at first")
		seen, err := ask(ctx, leader)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.GPUs).To(HavePrefix("GPU-"+leader.Spec.NodeName+"-"), "the devices of the container")

		w.measured("Ready after a lost pod", func() {
			Expect(api.Delete(ctx, leader)).To(Succeed())
			w.renewed(leader, follower)
			w.ready("duo")
		})
		w.exchangedWithout("names after a lost pod", leader, follower)
	})

	It("finds its leader when it looks up the name at once, before there is an address", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.measured("Ready at first", func() {
			w.apply(strings.Replace(half, "name: IMPORT, value: 1s", "name: IMPORT, value: 0s", 1))
			w.ready("duo")
		})
		w.exchanged("names at first")
	})
})

// measured reports the duration of do. The result of the spec does not depend on it.
func (w *world) measured(what string, do func()) {
	GinkgoHelper()
	began := time.Now()
	do()
	AddReportEntry(what, time.Since(began).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
}
