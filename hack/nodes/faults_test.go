// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// solo returns a deployment of one pod on one real node. container and pod are further fields of the container and the pod, as YAML in one
// line.
func solo(container, pod string) string {
	return fmt.Sprintf(`apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: solo}
spec:
  components:
  - name: Worker
    type: worker
    podTemplate:
      spec:
        terminationGracePeriodSeconds: 2
        containers: [{name: main, %s}]
        %s
`, container, pod)
}

// peerContainer runs a peer with one GPU, which only real nodes have.
const peerContainer = `image: "localhost/peer:1", resources: {limits: {nvidia.com/gpu: "1"}}, ` + peerProbes

// peerProbes are the probes of a worker with shorter periods.
const peerProbes = `startupProbe: {httpGet: {path: /live, port: 9090}, periodSeconds: 1, failureThreshold: 600}, ` +
	`readinessProbe: {httpGet: {path: /health, port: 9090}, periodSeconds: 1}, ` +
	`livenessProbe: {httpGet: {path: /live, port: 9090}, periodSeconds: 5}`

var _ = Describe("A pod that its kubelet cannot get Ready", func() {
	reports := func(ctx SpecContext, manifest, reason string, words ...string) {
		w := newWorld(ctx)
		if strings.Contains(manifest, "runtimeClassName") {
			w.handler("absent")
		}
		w.apply(manifest)
		w.health("solo", "Worker", reason, words...)
		w.until("Ready of the deployment, explain and status report it", func() error {
			c, err := w.readiness("solo")
			if err != nil {
				return err
			}
			explained := plugin(ctx, "explain", "dgd/solo", "--namespace="+w.namespace)
			listed := plugin(ctx, "status", "dgd/solo", "--namespace="+w.namespace) // one line a component
			unwrapped := func(text string) string { return strings.Join(strings.Fields(text), " ") }
			return errors.Join(contains(c.Message, words), contains(unwrapped(explained), words[1:]),
				contains(listed, []string{"solo in " + w.namespace + " is not ready", "Worker", "0/1", "1 replica to start"}),
				contains(unwrapped(listed), append([]string{"PodsHealthy of Worker is False, " + reason}, words...)))
		})
	}
	DescribeTable("is reported with the reason", reports,
		Entry("an image that does not exist", SpecTimeout(suite.Timeout()), solo(`image: "localhost/absent:1"`, ""),
			trellisv1alpha1.ReasonPodsNotStarting,
			"ImagePullBackOff", `"localhost/absent:1" cannot be pulled: `),
		Entry("a Secret for a volume that does not exist", SpecTimeout(suite.Timeout()),
			solo(peerContainer+`, volumeMounts: [{name: s, mountPath: /s}]`, `volumes: [{name: s, secret: {secretName: absent}}]`),
			trellisv1alpha1.ReasonPodsNotStarting, "FailedMount", `secret "absent" not found`),
		Entry("a ConfigMap for a volume that does not exist", SpecTimeout(suite.Timeout()),
			solo(peerContainer+`, volumeMounts: [{name: c, mountPath: /c}]`, `volumes: [{name: c, configMap: {name: absent}}]`),
			trellisv1alpha1.ReasonPodsNotStarting, "FailedMount", `configmap "absent" not found`),
		Entry("a sandbox that the runtime cannot make", SpecTimeout(suite.Timeout()), solo(peerContainer, `runtimeClassName: absent`),
			trellisv1alpha1.ReasonPodsNotStarting, "FailedCreatePodSandBox", `no runtime for "absent" is configured`),
		Entry("a Secret for a variable that does not exist", SpecTimeout(suite.Timeout()),
			solo(peerContainer+`, env: [{name: X, valueFrom: {secretKeyRef: {name: absent, key: k}}}]`, ""),
			trellisv1alpha1.ReasonPodsNotStarting, "CreateContainerConfigError", `secret "absent" not found`),
		Entry("a command that does not exist", SpecTimeout(suite.Timeout()), solo(peerContainer+`, command: [python3, -m, server]`, ""),
			trellisv1alpha1.ReasonPodsNotStarting, "container main", `exec: "python3": executable file not found`),
		Entry("a command that does not exist, between two starts", SpecTimeout(suite.Timeout()),
			solo(peerContainer+`, command: [python3, -m, server]`, ""), trellisv1alpha1.ReasonPodsNotStarting,
			"container main is restarted repeatedly", "exited with code 128 (StartError)", `exec: "python3": executable file not found`),
		Entry("more memory than its limit", SpecTimeout(suite.Timeout()), solo(
			`image: "localhost/peer:1", env: [{name: EAT, value: "200"}], resources: {limits: {nvidia.com/gpu: "1", memory: 64Mi}}`, ""),
			trellisv1alpha1.ReasonPodsNotStarting, "container main", "exited with code 137 (OOMKilled)"),
		Entry("a program that ends in peace", SpecTimeout(suite.Timeout()), solo(`image: "localhost/busybox:1", command: ["true"]`, ""),
			trellisv1alpha1.ReasonPodsNotStarting, "container main", "exited with code 0 (Completed)"),
		Entry("a readiness probe that fails", SpecTimeout(suite.Timeout()), solo(peerContainer+`, env: [{name: SICK, value: "1"}]`, ""),
			trellisv1alpha1.ReasonPodsNotReady, "container main: Readiness probe failed", "statuscode: 503"),
	)
})

// handler creates a RuntimeClass with a handler that no node has.
func (w *world) handler(name string) {
	GinkgoHelper()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}
	Expect(w.api.Create(w.ctx, class)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(w.api.Delete(ctx, class)).To(Succeed()) })
}

// ofREADME returns the command of the pods in the README.
func ofREADME() string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	Expect(err).NotTo(HaveOccurred())
	command := regexp.MustCompile(`(?m)^ +(command: \[.*\])$`).FindSubmatch(text)
	Expect(command).NotTo(BeNil())
	return string(command[1])
}

var _ = Describe("A pod that is deleted", func() {
	It("ends at once with the command of the README", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		manifest := solo(`image: "localhost/busybox:1", `+ofREADME()+`, readinessProbe: {exec: {command: ["true"]}}, startupProbe: {exec: `+
			`{command: ["true"]}}, livenessProbe: {exec: {command: ["true"]}}`, "")
		w.apply(strings.ReplaceAll(manifest, "terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: 3600"))
		w.ready("solo")
		w.remove()
	})

	DescribeTable("is replaced", func(ctx SpecContext, env string) {
		w := newWorld(ctx)
		w.apply(solo(peerContainer+", env: ["+env+"]", ""))
		w.ready("solo")
		first := w.pod("Worker")
		Expect(api.Delete(ctx, first)).To(Succeed())
		w.until("another pod is there", func() error {
			pods := w.pods("Worker")
			if len(pods) != 1 || pods[0].UID == first.UID {
				return errors.New("the old one is")
			}
			return nil
		})
		w.ready("solo")
	},
		Entry("when it ends with 0 on SIGTERM", SpecTimeout(suite.Timeout()), `{name: EXIT, value: "0"}`),
		Entry("when it ends with 143 on SIGTERM", SpecTimeout(suite.Timeout()), `{name: EXIT, value: "143"}`),
		Entry("when it ignores SIGTERM", SpecTimeout(suite.Timeout()), `{name: DRAIN, value: forever}`),
	)
})

// ready returns the status of a node's Ready condition.
func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}
