// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

const (
	// late is how much longer an answer takes through a slow proxy, per way there and back.
	late = 200 * time.Millisecond
	// soon is when a reader of v1alpha1 gives up.
	soon = time.Second
)

// TestSlowWebhooks: admission and conversion answer late, then not at all, then as before. Nothing is lost, nothing is restarted.
func TestSlowWebhooks(t *testing.T) {
	tier.All(t)
	s := newServed(t)
	s.must(s.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}))
	s.until("admission and conversion are served", time.Minute, func() error {
		return s.c.Create(t.Context(), s.graph("probe"), client.DryRunAll)
	})
	s.admissionIsSlow()
	s.admissionHangs()
	watched := s.conversionIsSlow()
	s.must(s.c.Create(t.Context(), hub.Back(s.graph("old"))))
	s.until("the graph written as v1alpha1 has its pods", time.Minute, func() error {
		return errors.Join(s.hasPods("old", "frontend-0", "worker-0-0", "worker-0-1"), s.reports("old"))
	})
	s.conversionHangs()
	s.conversionIsMended(watched)
	s.stuckConnectionsEnd()
}

func (s *served) graph(name string) *nvidiav1beta1.DynamoGraphDeployment {
	services := graphs.Services{"Frontend": frontend(), "Worker": graphs.Worker(1, 2, 8, "")}
	*services["Frontend"].Replicas = 1
	dgd := hub.Of(deployment("slow", services))
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
	s.t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	s.must(s.c.Get(s.t.Context(), client.ObjectKey{Namespace: "slow", Name: name}, dgd))
	return dgd
}

// patch applies a JSON merge patch to a graph.
func (s *served) patch(name, patch string) error {
	return s.c.Patch(s.t.Context(), s.graph(name), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// setReplicas writes the number of a component.
func (s *served) setReplicas(name, component string, replicas int) error {
	patch := `[{"op":"replace","path":"/spec/components/%d/replicas","value":%d}]`
	i := slices.IndexFunc(s.graph(name).Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.Name == component })
	return s.c.Patch(s.t.Context(), s.graph(name), client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, patch, i, replicas)))
}

// scale writes the number of the adapter of a graph's frontend.
func (s *served) scale(name string, replicas int) error {
	adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: name + "-frontend"}}
	return s.c.Patch(s.t.Context(), adapter, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// hasPods says why not all of these pods of a graph exist, or others do.
func (s *served) hasPods(name string, want ...string) error {
	s.t.Helper()
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

// reports says why the operator's status of a graph is not that of its spec.
func (s *served) reports(name string) error {
	if dgd := s.now(name); dgd.Status.ObservedGeneration != dgd.Generation {
		return fmt.Errorf("generation %d is reported, %d is there", dgd.Status.ObservedGeneration, dgd.Generation)
	}
	return nil
}

// Answers that come in time are as good as others: every write succeeds, and nothing of it is lost.
func (s *served) admissionIsSlow() {
	s.t.Log("admission answers late")
	s.admission.slow(late)
	defer s.admission.mend()
	if waited := took(func() { s.must(s.c.Create(s.t.Context(), s.graph("g"))) }); waited < late {
		s.t.Errorf("a webhook was asked in %s", waited)
	}
	want := map[string]string{}
	var writers sync.WaitGroup
	for i := range 3 {
		key := fmt.Sprintf("example.com/label-%d", i)
		want[key] = "yes"
		writers.Go(func() {
			if err := s.patch("g", fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, key)); err != nil {
				s.t.Errorf("a write failed: %v", err)
			}
		})
	}
	writers.Wait()
	if got := s.now("g").Labels; !maps.Equal(got, want) {
		s.t.Errorf("labels %v, want %v", got, want)
	}
	s.until("the graph has its pods and its adapter", time.Minute, func() error {
		return errors.Join(s.hasPods("g", "frontend-0", "worker-0-0", "worker-0-1"), s.reports("g"), s.adapterSays("follows this adapter"))
	})
}

// Writes that admission does not answer are refused and name it. What needs no admission goes on; what the operator could not write it writes later.
func (s *served) admissionHangs() {
	s.t.Log("admission does not answer")
	before := s.now("g")
	s.admission.hold()
	defer s.admission.mend()
	var writers sync.WaitGroup
	for webhook, write := range map[string]func() error{
		"mutate.dynamographdeployment.trellis.dev":   func() error { return s.setReplicas("g", "Worker", 2) },
		"validate.dynamographdeployment.trellis.dev": func() error { return s.c.Create(s.t.Context(), s.graph("refused")) },
	} {
		writers.Go(func() {
			err := write()
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q", webhook)) {
				s.t.Errorf("want the webhook blamed, got %v", err)
			}
		})
	}
	writers.Go(func() {
		if err := s.scale("g", 3); err != nil {
			s.t.Errorf("the webhook of adapters fails open, but: %v", err)
		}
	})
	frontend := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: "g-frontend-0"}}
	s.must(s.c.Delete(s.t.Context(), frontend, client.GracePeriodSeconds(0)))
	s.until("the lost pod is recreated", time.Minute, func() error { return s.hasPods("g", "frontend-0", "worker-0-0", "worker-0-1") })
	writers.Wait()
	if after := s.now("g"); after.Generation != before.Generation {
		s.t.Errorf("generation %d became %d", before.Generation, after.Generation)
	}
	err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: "slow", Name: "refused"}, &nvidiav1beta1.DynamoGraphDeployment{})
	if !apierrors.IsNotFound(err) {
		s.t.Errorf("the refused graph: %v", err)
	}
	s.until("the adapter says that its number waits", time.Minute, func() error { return s.adapterSays("not written yet, and tried again") })
	s.admission.mend()
	s.until("the number is written", time.Minute, func() error {
		return errors.Join(s.hasPods("g", "frontend-0", "frontend-1", "frontend-2", "worker-0-0", "worker-0-1"), s.reports("g"), s.adapterSays("follows this adapter"))
	})
	s.must(s.c.Create(s.t.Context(), s.graph("refused")))
	s.must(s.setReplicas("refused", "Worker", 2))
	s.until("the graph that was refused has its pods", time.Minute, func() error {
		return s.hasPods("refused", "frontend-0", "worker-0-0", "worker-0-1", "worker-1-0", "worker-1-1")
	})
}

// adapterSays says why the adapter of g is not in use with such a message.
func (s *served) adapterSays(text string) error {
	adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
	if err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: "slow", Name: "g-frontend"}, adapter); err != nil {
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
	s.t.Helper()
	list := &nvidiav1alpha1.DynamoGraphDeploymentList{}
	s.must(s.c.List(s.t.Context(), list, client.InNamespace("slow")))
	all := map[string]nvidiav1alpha1.DynamoGraphDeployment{}
	for _, dgd := range list.Items {
		all[dgd.Name] = dgd
	}
	return all
}

// A list and a watch of the version that is not stored take long, and are complete. It returns the watch.
func (s *served) conversionIsSlow() watch.Interface {
	s.t.Log("conversion answers late")
	s.conversion.slow(late)
	defer s.conversion.mend()
	if waited := took(func() {
		s.must(s.c.Get(s.t.Context(), client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1alpha1.DynamoGraphDeployment{}))
	}); waited < late {
		s.t.Errorf("a graph was converted in %s", waited)
	}
	if waited := took(func() { // the API server keeps the list converted, but for what has changed
		s.must(s.patch("refused", `{"metadata":{"labels":{"seen":"listed"}}}`))
		if all := s.alphas(); len(all) != 2 || all["refused"].Labels["seen"] != "listed" {
			s.t.Errorf("listed %+v", all)
		}
	}); waited < late {
		s.t.Errorf("a list was converted in %s", waited)
	}
	watched, err := s.c.Watch(s.t.Context(), &nvidiav1alpha1.DynamoGraphDeploymentList{}, client.InNamespace("slow"))
	s.must(err)
	s.t.Cleanup(watched.Stop)
	s.must(s.patch("refused", `{"metadata":{"labels":{"seen":"late"}}}`))
	s.sees(watched, "refused", "late")
	return watched
}

// sees waits until a watch shows a graph with a value of the label seen.
func (s *served) sees(watched watch.Interface, name, value string) {
	s.t.Helper()
	for enough := time.After(time.Minute); ; {
		select {
		case event, open := <-watched.ResultChan():
			if !open {
				s.t.Fatalf("the watch ended before it showed %s", value)
			}
			if dgd, ok := event.Object.(*nvidiav1alpha1.DynamoGraphDeployment); ok && dgd.Name == name && dgd.Labels["seen"] == value {
				return
			}
		case <-enough:
			s.t.Fatalf("the watch does not show %s", value)
		}
	}
}

// The version that is stored, and with it the operator, does not notice that nothing is converted. Writes wait of an object that somebody wrote as
// v1alpha1, for the API server converts it to find out which fields are whose.
func (s *served) conversionHangs() {
	s.t.Log("conversion does not answer")
	s.conversion.hold()
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			short, cancel := context.WithTimeout(s.t.Context(), soon)
			defer cancel()
			if err := s.c.Get(short, client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1alpha1.DynamoGraphDeployment{}); err == nil {
				s.t.Error("v1alpha1 was read without a conversion")
			}
		})
	}
	reading, cancel := context.WithTimeout(s.t.Context(), 30*time.Second) // what needs a conversion does not end
	defer cancel()
	s.t.Logf("20 reads of v1beta1 took %s", took(func() {
		for range 20 {
			s.must(s.c.Get(reading, client.ObjectKey{Namespace: "slow", Name: "g"}, &nvidiav1beta1.DynamoGraphDeployment{}))
			s.must(s.c.List(reading, &nvidiav1beta1.DynamoGraphDeploymentList{}, client.InNamespace("slow")))
		}
	}))
	s.must(s.scale("old", 2))
	s.must(s.scale("g", 2))
	s.must(s.setReplicas("g", "Worker", 2))
	s.must(s.patch("refused", `{"metadata":{"labels":{"seen":"held"}}}`))
	s.until("the graph follows", time.Minute, func() error {
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
	s.must(s.hasPods("old", "frontend-0", "worker-0-0", "worker-0-1"))
	readers.Wait()
}

// Lists and watches of the version that is not stored go on where they were.
func (s *served) conversionIsMended(watched watch.Interface) {
	s.t.Log("conversion answers again")
	s.conversion.mend()
	s.sees(watched, "refused", "held")
	s.until("the graph written as v1alpha1 follows too", time.Minute, func() error {
		return errors.Join(s.hasPods("old", "frontend-0", "frontend-1", "worker-0-0", "worker-0-1"), s.reports("old"))
	})
	all := s.alphas()
	if len(all) != 3 {
		s.t.Errorf("listed %+v", all)
	}
	if dgd := all["g"]; *dgd.Spec.Services["Worker"].Replicas != 2 || *dgd.Spec.Services["Frontend"].Replicas != 2 {
		s.t.Errorf("read as v1alpha1: %+v", dgd.Spec)
	}
}

// Callers that send half a request are many, and none stays. Whoever sends a whole one is answered meanwhile.
func (s *served) stuckConnectionsEnd() {
	s.t.Log("callers send half a request")
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			conn, err := tls.Dial("tcp", s.direct, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				s.t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprint(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf"); err != nil {
				s.t.Error(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * stuckAfter))
			answer := make([]byte, 1024)
			for err == nil {
				_, err = conn.Read(answer)
			}
			if timeout := interface{ Timeout() bool }(nil); errors.As(err, &timeout) && timeout.Timeout() {
				s.t.Error("a connection is kept")
			}
		})
	}
	s.alphas()
	callers.Wait()
}
