// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookOfPods is the name of the webhook that counts.
const webhookOfPods = "pods.example.com"

// withinTurn is less than the time after which a gang that is not completed loses its turn. When the API server does not answer for that
// long, another gang may begin.
const withinTurn = 10 * time.Second

// podCounter is a validating webhook that allows the namespace of a world a number of pods, whether they run, wait or terminate.
type podCounter struct {
	w *world

	mu   sync.Mutex
	most int
	// admitted are pods that are allowed and may not be stored yet, by name.
	admitted map[string]*corev1.Pod
	refusals int
	// last is when the last pod of a gang was allowed.
	last map[string]time.Time
	// mixed are the creates since the last change of the number that began a gang while another one existed in part.
	mixed []string
}

// countPods has the webhook in force until the spec ends.
func (w *world) countPods(most int) *podCounter {
	w.t.Helper()
	p := &podCounter{w: w, admitted: map[string]*corev1.Pod{}, last: map[string]time.Time{}}
	server := httptest.NewTLSServer(p)
	w.t.Cleanup(server.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: webhookOfPods, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](30),
			SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.name}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	w.create(configuration)
	w.t.Cleanup(func() { Expect(w.c.Delete(context.Background(), configuration)).To(Succeed()) })
	w.refusesTrial(corev1.ResourceRequirements{}, webhookOfPods)
	p.allow(most)
	return p
}

// refusesTrial waits until the API server refuses a trial of a pod with these words: it learns of webhooks and LimitRanges a moment after they
// are created.
func (w *world) refusesTrial(resources corev1.ResourceRequirements, words string) {
	w.t.Helper()
	w.until("the API server refuses pods with "+words, func() error {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "probe"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/probe:1", Resources: resources}},
		}}
		if err := w.c.Create(w.t.Context(), probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
}

// ServeHTTP answers a review of the API server.
func (p *podCounter) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(request.Body).Decode(review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if err := p.admit(request.Context(), review.Request); err != nil {
		review.Response.Allowed, review.Response.Result = false, &metav1.Status{Message: err.Error(), Code: http.StatusForbidden}
	}
	if err := json.NewEncoder(out).Encode(review); err != nil {
		p.w.t.Logf("answering the API server: %v", err)
	}
}

func (p *podCounter) admit(ctx context.Context, request *admissionv1.AdmissionRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if request.Operation == admissionv1.Delete {
		delete(p.admitted, request.Name)
		return nil
	}
	pod, stored := &corev1.Pod{}, &corev1.PodList{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return err
	}
	if err := p.w.c.List(ctx, stored, client.InNamespace(p.w.name)); err != nil {
		return err
	}
	pods := maps.Clone(p.admitted)
	for i := range stored.Items {
		pods[stored.Items[i].Name] = &stored.Items[i]
		delete(p.admitted, stored.Items[i].Name)
	}
	delete(pods, pod.Name) // the create of a pod that exists fails later
	if len(pods) >= p.most {
		p.refusals++
		return fmt.Errorf("the namespace has %d pods of at most %d", len(pods), p.most)
	}
	if ptr.Deref(request.DryRun, false) {
		return nil
	}
	for name, of := range gangsOf(slices.Collect(maps.Values(pods))) {
		if name != gangOf(pod) && of.inPart() && time.Since(p.last[name]) < withinTurn {
			p.mixed = append(p.mixed, fmt.Sprintf("%s was created while %s had %d pods", pod.Name, name, len(of)))
		}
	}
	p.admitted[pod.Name], p.last[gangOf(pod)] = pod, time.Now()
	return nil
}

// allow changes the number of pods.
func (p *podCounter) allow(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most, p.mixed = most, nil
}

// refusesAgain waits until another create is refused.
func (p *podCounter) refusesAgain() {
	p.w.t.Helper()
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusals
	}
	before := count()
	p.w.until("another create is refused", func() error {
		if now := count(); now == before {
			return fmt.Errorf("%d are refused", now)
		}
		return nil
	})
}

// oneByOne expects that no gang was begun while another one existed in part, since the number was changed.
func (p *podCounter) oneByOne() {
	GinkgoHelper()
	p.mu.Lock()
	defer p.mu.Unlock()
	Expect(p.mixed).To(BeEmpty())
}
