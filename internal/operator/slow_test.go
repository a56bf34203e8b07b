// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	// late is how much longer an answer takes through a slow proxy, per way there and back.
	late = 200 * time.Millisecond
	// soon is when a reader of v1alpha1 gives up.
	soon = time.Second
)

var _ = Describe("Admission and conversion that do not answer in time", func() {
	It("lose nothing and restart nothing", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServed(ctx)
		Expect(s.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slow"}})).To(Succeed())
		s.until("admission and conversion are served", func() error {
			return s.c.Create(ctx, s.graph("probe"), client.DryRunAll)
		})
		s.admissionIsSlow()
		s.admissionHangs()
		watched := s.conversionIsSlow()
		Expect(s.c.Create(ctx, hub.Back(s.graph("old")))).To(Succeed())
		s.until("the graph written as v1alpha1 has its pods", func() error {
			return errors.Join(s.hasPods("old", "frontend-0", "worker-0-0", "worker-0-1"), s.reports("old"))
		})
		s.conversionHangs()
		s.conversionIsMended(watched)
		s.stuckConnectionsEnd()
	})
})

func (s *served) graph(name string) *nvidiav1beta1.DynamoGraphDeployment {
	components := graphs.Components{"Frontend": frontend(), "Worker": graphs.Worker(1, 2, 8, "")}
	*components["Frontend"].Replicas = 1
	dgd := hub.Of(deployment("slow", components))
	dgd.Name = name
	return dgd
}

// took returns how long something took.
func took(do func()) time.Duration {
	since := time.Now()
	do()
	return time.Since(since)
}

// now reads a graph.
func (s *served) now(name string) *nvidiav1beta1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	Expect(s.c.Get(s.ctx, client.ObjectKey{Namespace: "slow", Name: name}, dgd)).To(Succeed())
	return dgd
}

// patch applies a JSON merge patch to a graph.
func (s *served) patch(name, patch string) error {
	return s.c.Patch(s.ctx, s.graph(name), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// setReplicas writes the number of a component.
func (s *served) setReplicas(name, component string, replicas int) error {
	patch := `[{"op":"replace","path":"/spec/components/%d/replicas","value":%d}]`
	i := slices.IndexFunc(s.graph(name).Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.Name == component })
	return s.c.Patch(s.ctx, s.graph(name), client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, patch, i, replicas)))
}

// scale writes the number of the adapter of a graph's frontend.
func (s *served) scale(name string, replicas int) error {
	adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: name + "-frontend"}}
	return s.c.Patch(s.ctx, adapter, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// hasPods explains why not all of these pods of a graph exist, or others do.
func (s *served) hasPods(name string, want ...string) error {
	GinkgoHelper()
	var names []string
	for _, pod := range s.pods("slow") {
		if rest, ok := strings.CutPrefix(pod.Name, name+"-"); ok {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		return fmt.Errorf("there are the pods %q, want %q", names, want)
	}
	return nil
}

// reports explains why the operator's status of a graph is not that of its spec.
func (s *served) reports(name string) error {
	if dgd := s.now(name); dgd.Status.ObservedGeneration != dgd.Generation {
		return fmt.Errorf("generation %d is reported, %d is there", dgd.Status.ObservedGeneration, dgd.Generation)
	}
	return nil
}

// Answers that come in time are as good as others: every write succeeds, and nothing of it is lost.
func (s *served) admissionIsSlow() {
	By("admission answers late")
	s.admission.slow(late)
	defer s.admission.mend()
	Expect(took(func() { Expect(s.c.Create(s.ctx, s.graph("g"))).To(Succeed()) })).To(BeNumerically(">=", late), "the time in which a webhook was asked")
	want := map[string]string{}
	var writers sync.WaitGroup
	for i := range 3 {
		key := fmt.Sprintf("example.com/label-%d", i)
		want[key] = "yes"
		writers.Go(func() {
			defer GinkgoRecover()
			Expect(s.patch("g", fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, key))).To(Succeed())
		})
	}
	writers.Wait()
	Expect(s.now("g").Labels).To(Equal(want))
	s.until("the graph has its pods and its adapter", func() error {
		return errors.Join(s.hasPods("g", "frontend-0", "worker-0-0", "worker-0-1"), s.reports("g"), s.adapterSays("follows this adapter"))
	})
}

// Writes that admission does not answer are refused and name it. What needs no admission continues; what the operator could not write it writes later.
func (s *served) admissionHangs() {
	By("admission does not answer")
	before := s.now("g")
	s.admission.hold()
	defer s.admission.mend()
	var writers sync.WaitGroup
	for webhook, write := range map[string]func() error{
		"mutate.dynamographdeployment.trellis.dev":   func() error { return s.setReplicas("g", "Worker", 2) },
		"validate.dynamographdeployment.trellis.dev": func() error { return s.c.Create(s.ctx, s.graph("refused")) },
	} {
		writers.Go(func() {
			defer GinkgoRecover()
			Expect(write()).To(And(Satisfy(apierrors.IsInternalError), MatchError(ContainSubstring(fmt.Sprintf("failed calling webhook %q", webhook)))))
		})
	}
	writers.Go(func() {
		defer GinkgoRecover()
		Expect(s.scale("g", 3)).To(Succeed(), "the webhook of adapters does not fail open")
	})
	frontend := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: "g-frontend-0"}}
	Expect(s.c.Delete(s.ctx, frontend, client.GracePeriodSeconds(0))).To(Succeed())
	s.until("the lost pod is recreated", func() error { return s.hasPods("g", "frontend-0", "worker-0-0", "worker-0-1") })
	writers.Wait()
	Expect(s.now("g").Generation).To(Equal(before.Generation))
	err := s.c.Get(s.ctx, client.ObjectKey{Namespace: "slow", Name: "refused"}, &nvidiav1beta1.DynamoGraphDeployment{})
	Expect(err).To(Satisfy(apierrors.IsNotFound), "the refused graph")
	s.until("the adapter says that its number waits", func() error { return s.adapterSays("not written yet, and are retried") })
	s.admission.mend()
	s.until("the number is written", func() error {
		return errors.Join(s.hasPods("g", "frontend-0", "frontend-1", "frontend-2", "worker-0-0", "worker-0-1"), s.reports("g"), s.adapterSays("follows this adapter"))
	})
	Expect(s.c.Create(s.ctx, s.graph("refused"))).To(Succeed())
	Expect(s.setReplicas("refused", "Worker", 2)).To(Succeed())
	s.until("the graph that was refused has its pods", func() error {
		return s.hasPods("refused", "frontend-0", "worker-0-0", "worker-0-1", "worker-1-0", "worker-1-1")
	})
}

// adapterSays explains why the adapter of g is not in use with such a message.
func (s *served) adapterSays(text string) error {
	adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
	if err := s.c.Get(s.ctx, client.ObjectKey{Namespace: "slow", Name: "g-frontend"}, adapter); err != nil {
		return err
	}
	c := meta.FindStatusCondition(adapter.Status.Conditions, nvidiav1beta1.ConditionActive)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, text) {
		return fmt.Errorf("%+v", c)
	}
	return nil
}

// alphas lists the graphs as v1alpha1, by name.
func (s *served) alphas() map[string]nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	list := &nvidiav1alpha1.DynamoGraphDeploymentList{}
	Expect(s.c.List(s.ctx, list, client.InNamespace("slow"))).To(Succeed())
	all := map[string]nvidiav1alpha1.DynamoGraphDeployment{}
	for _, dgd := range list.Items {
		all[dgd.Name] = dgd
	}
	return all
}

// A list and a watch of the version that is not stored take long, and are complete. It returns the watch.
func (s *served) conversionIsSlow() watch.Interface {
	By("conversion answers late")
	s.conversion.slow(late)
	defer s.conversion.mend()
	Expect(took(func() {
		Expect(s.c.Get(s.ctx, client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1alpha1.DynamoGraphDeployment{})).To(Succeed())
	})).To(BeNumerically(">=", late), "the time in which a graph was converted")
	Expect(took(func() { // the API server keeps the list converted, but for what has changed
		Expect(s.patch("refused", `{"metadata":{"labels":{"seen":"listed"}}}`)).To(Succeed())
		all := s.alphas()
		Expect(all).To(HaveLen(2))
		Expect(all["refused"].Labels).To(HaveKeyWithValue("seen", "listed"))
	})).To(BeNumerically(">=", late), "the time in which a list was converted")
	watched, err := s.c.Watch(s.ctx, &nvidiav1alpha1.DynamoGraphDeploymentList{}, client.InNamespace("slow"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watched.Stop)
	Expect(s.patch("refused", `{"metadata":{"labels":{"seen":"late"}}}`)).To(Succeed())
	s.sees(watched, "refused", "late")
	return watched
}

// sees waits until a watch shows a graph with a value of the label seen.
func (s *served) sees(watched watch.Interface, name, value string) {
	GinkgoHelper()
	Eventually(s.ctx, watched.ResultChan()).Should(Receive(Satisfy(func(event watch.Event) bool {
		dgd, ok := event.Object.(*nvidiav1alpha1.DynamoGraphDeployment)
		return ok && dgd.Name == name && dgd.Labels["seen"] == value
	})), "the watch does not show %s", value)
}

// The version that is stored, and with it the operator, does not notice that nothing is converted. Writes wait of an object that a user wrote as
// v1alpha1, for the API server converts it to find out which fields are whose.
func (s *served) conversionHangs() {
	By("conversion does not answer")
	s.conversion.hold()
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			defer GinkgoRecover()
			short, cancel := context.WithTimeout(s.ctx, soon)
			defer cancel()
			err := s.c.Get(short, client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1alpha1.DynamoGraphDeployment{})
			Expect(err).To(HaveOccurred(), "v1alpha1 was read without a conversion")
		})
	}
	AddReportEntry("20 reads of v1beta1", took(func() { // what needs a conversion fails, or does not end
		for range 20 {
			Expect(s.c.Get(s.ctx, client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1beta1.DynamoGraphDeployment{})).To(Succeed())
			Expect(s.c.List(s.ctx, &nvidiav1beta1.DynamoGraphDeploymentList{}, client.InNamespace("slow"))).To(Succeed())
		}
	}), ReportEntryVisibilityFailureOrVerbose)
	Expect(s.scale("old", 2)).To(Succeed())
	Expect(s.scale("g", 2)).To(Succeed())
	Expect(s.setReplicas("g", "Worker", 2)).To(Succeed())
	Expect(s.patch("refused", `{"metadata":{"labels":{"seen":"held"}}}`)).To(Succeed())
	s.until("the graph follows", func() error {
		s.endPods("slow")
		follows := func(frontend string) error {
			return s.hasPods("g", "frontend-0", frontend, "worker-0-0", "worker-0-1", "worker-1-0", "worker-1-1")
		}
		err := follows("frontend-1")
		if err != nil && follows("frontend-2") == nil {
			err = nil // the youngest goes, and of the two that were made at once either may be younger by a second
		}
		return errors.Join(err, s.reports("g"))
	})
	Expect(s.hasPods("old", "frontend-0", "worker-0-0", "worker-0-1")).To(Succeed())
	readers.Wait()
}

// Lists and watches of the version that is not stored continue where they were.
func (s *served) conversionIsMended(watched watch.Interface) {
	By("conversion answers again")
	s.conversion.mend()
	s.sees(watched, "refused", "held")
	s.until("the graph written as v1alpha1 follows too", func() error {
		return errors.Join(s.hasPods("old", "frontend-0", "frontend-1", "worker-0-0", "worker-0-1"), s.reports("old"))
	})
	all := s.alphas()
	Expect(all).To(HaveLen(3))
	for _, component := range []string{"Worker", "Frontend"} {
		Expect(all["g"].Spec.Services[component].Replicas).To(HaveValue(BeEquivalentTo(2)), "%s, read as v1alpha1", component)
	}
}

// Callers that send half a request are many, and none stays. Entire requests are answered meanwhile.
func (s *served) stuckConnectionsEnd() {
	By("callers send half a request")
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			defer GinkgoRecover()
			conn, err := tls.Dial("tcp", s.direct, &tls.Config{InsecureSkipVerify: true})
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = conn.Close() }()
			_, err = fmt.Fprint(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf")
			Expect(err).NotTo(HaveOccurred())
			_ = conn.SetReadDeadline(time.Now().Add(suite.Patience()))
			answer := make([]byte, 1024)
			for err == nil {
				_, err = conn.Read(answer)
			}
			timeout := interface{ Timeout() bool }(nil)
			Expect(errors.As(err, &timeout) && timeout.Timeout()).To(BeFalse(), "a connection is kept")
		})
	}
	s.alphas()
	callers.Wait()
}
