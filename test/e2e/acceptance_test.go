// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// instance is the id by which the worker in a pod registers.
func instance(pod *corev1.Pod) uint32 { return crc32.ChecksumIEEE([]byte(pod.UID)) }

// played is what a frontend's program would do: it lists at /health what it has been told.
type played struct {
	*httptest.Server
	mu     sync.Mutex
	listed []string
	asked  int
}

func playFrontend() *played {
	GinkgoHelper()
	p := &played{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		p.asked++
		_, _ = fmt.Fprintf(w, `{"status":"healthy","instances":[%s]}`, strings.Join(p.listed, ","))
	}))
	DeferCleanup(p.Close)
	return p
}

// list the instance of a pod once.
func (p *played) list(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := fmt.Sprintf(`{"namespace":"n","component":"backend","endpoint":"generate","instance_id":%d}`, instance(pod))
	if !slices.Contains(p.listed, entry) {
		p.listed = append(p.listed, entry)
	}
}

func (p *played) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// port that it listens on.
func (p *played) port() int32 {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(p.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	n, err := strconv.ParseInt(port, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	return int32(n)
}

// answeredBy has the pods of a component at the address of this process.
func (w *world) answeredBy(component string) {
	w.t.Helper()
	for _, pod := range w.all() {
		if pod.Labels[render.LabelComponent] != component || pod.Status.PodIP == "127.0.0.1" {
			continue
		}
		at := pod.DeepCopy()
		at.Status.PodIP, at.Status.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
		if err := w.c.Status().Patch(w.t.Context(), at, client.MergeFrom(&pod)); err != nil {
			w.t.Fatalf("moving pod %s: %v", pod.Name, err)
		}
	}
}

var _ = Describe("An update whose frontends are asked", func() {
	// Pods of the sandbox run no runtime: the spec publishes for the workers, and answers for the frontend. As long as the frontend does not list the new
	// workers, they are Ready and count for nothing.
	It("counts new workers when the frontend lists them, and serves half at every moment", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-asked", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		front := playFrontend()
		dgd := w.pairIn("zone", "1", "0")
		dgd.Annotations[rollout.AnnotationAskFrontends] = "true"
		dgd.Spec.Services["Frontend"].ExtraPodSpec.MainContainer.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: front.port()}}
		w.create(dgd)
		w.ready("g")
		w.answeredBy("Frontend")
		former := w.dgd("g").Annotations[render.AnnotationWorkerHash]
		publish := func(listed bool) {
			GinkgoHelper()
			for _, pod := range w.all() {
				if pod.Labels[render.LabelWorkerHash] == "" {
					continue
				}
				w.publishAs(&pod, fmt.Sprintf(`{"model_cards":{"a":{"namespace":"n","instance_id":%d}}}`, instance(&pod)))
				if listed {
					front.list(&pod)
				}
			}
		}
		publish(true)
		watcher := w.followGenerations(0.5)
		w.setImage("g", "Decode", "example.com/vllm:2")
		wanted := haveCondition(nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RollingOut",
			"Prefill: 0 of 2 replicas serve the current revision, 1 serve in all", "Decode: 0 of 4 replicas serve the current revision, 2 serve in all",
			"and frontend pod g-frontend-0 does not list it")
		w.until("the new workers wait for the frontend", func() error {
			publish(false)
			if matches, err := wanted.Match(w.dgd("g")); matches || err != nil {
				return err
			}
			return fmt.Errorf("the conditions are %q", conditionsOf(w.dgd("g")))
		})
		Expect(front.requests()).To(BeNumerically(">", 0))
		serving := 0
		for _, pod := range w.all() {
			if pod.Labels[render.LabelWorkerHash] == former && watcher.ready(pod.UID) {
				serving++
			}
		}
		Expect(serving).To(Equal(4), "the pods of the old generation that serve: of 1 prefill and 2 decode replicas")

		w.until("all workers are of the new generation", func() error {
			publish(true)
			return w.isUpdated()
		})
		w.ready("g")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("A restart that is requested while an update is paused", func() {
	It("begins when the update is resumed, and recreates nothing before", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-restart", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		before := w.uids()
		watcher := w.followGenerations(0.5)

		By("the update is paused, and a restart is requested")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":"true"}}}`)
		w.setImage("g", "Decode", "example.com/vllm:2")
		w.patch("g", `{"spec":{"restart":{"id":"one"}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RolloutPaused",
			"the update is paused", "restart one begins when the update is neither paused nor limited by its partition")
		Expect(w.dgd("g").Status.Restart).To(HaveValue(And(HaveField("ObservedID", "one"), HaveField("Phase", nvidiav1alpha1.RestartPending))))
		Expect(w.uids()).To(Equal(before), "a replica was recreated")

		By("it is resumed")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":null}}}`)
		w.restarted("g", "one")
		w.ready("g")
		watcher.stop()
		Expect(w.oneGeneration()).To(Succeed())
		Expect(w.allNew(before, 9)).To(Succeed())
		for _, pod := range w.all() {
			Expect(pod.Annotations).To(HaveKeyWithValue(render.AnnotationRestart, "one"), "pod %s", pod.Name)
			if pod.Labels[render.LabelComponent] == "Decode" {
				Expect(pod.Spec.Containers[0].Image).To(Equal("example.com/vllm:2"), "pod %s", pod.Name)
			}
		}
	}, SpecTimeout(suite.Timeout()))
})
