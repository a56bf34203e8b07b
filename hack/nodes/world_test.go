// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// world is the namespace of a spec in a sandbox.
type world struct {
	ctx       SpecContext
	api       client.WithWatch
	namespace string
}

func newWorld(ctx SpecContext) *world {
	GinkgoHelper()
	w := &world{ctx, api, suite.Namespace(api)}
	DeferCleanup(func(ctx SpecContext) {
		w.ctx = ctx
		w.remove()
	}, NodeTimeout(suite.Timeout()))
	return w
}

// remove deletes all deployments, and waits until their capacity is free for the next spec.
func (w *world) remove() {
	GinkgoHelper()
	Expect(w.api.DeleteAllOf(w.ctx, &nvidiav1beta1.DynamoGraphDeployment{}, client.InNamespace(w.namespace))).To(Succeed())
	w.until("all pods are gone", func() error {
		if pods := w.all(); len(pods) > 0 {
			return fmt.Errorf("%d pods are there, %s among them", len(pods), pods[0].Name)
		}
		return nil
	})
}

// apply creates an object in the namespace.
func (w *world) apply(manifest string) {
	GinkgoHelper()
	o := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &o.Object)).To(Succeed())
	o.SetNamespace(w.namespace)
	Expect(w.api.Create(w.ctx, o)).To(Succeed())
}

// until waits until look returns no error; the last error describes the missing state.
func (w *world) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(w.ctx, look).Should(Succeed(), "waiting until "+what)
}

// ready waits until a deployment is Ready.
func (w *world) ready(name string) {
	GinkgoHelper()
	w.until(name+" is Ready", func() error {
		if c, err := w.readiness(name); err != nil || c.Status != metav1.ConditionTrue {
			return cmp.Or(err, fmt.Errorf("Ready is %+v", c))
		}
		return nil
	})
}

// readiness returns the condition Ready of a deployment, if it is of the current spec.
func (w *world) readiness(name string) (*metav1.Condition, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, dgd); err != nil {
		return nil, err
	}
	c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionReady)
	if c == nil || dgd.Status.ObservedGeneration != dgd.Generation {
		return nil, fmt.Errorf("Ready is %+v", c)
	}
	return c, nil
}

// all returns all pods of the namespace by name.
func (w *world) all() []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	suite.Answered(w.ctx, func() error { return w.api.List(w.ctx, list, client.InNamespace(w.namespace)) })
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// pods returns the pods of a component that are not terminating.
func (w *world) pods(component string) []corev1.Pod {
	GinkgoHelper()
	return slices.DeleteFunc(w.all(), func(p corev1.Pod) bool {
		return p.Labels[render.LabelComponent] != component || p.DeletionTimestamp != nil
	})
}

// pod returns the only pod of a component.
func (w *world) pod(component string) *corev1.Pod {
	GinkgoHelper()
	pods := w.pods(component)
	Expect(pods).To(HaveLen(1))
	return &pods[0]
}

// health waits until PodsHealthy of a component is False for a reason, with words in its message, and until Ready of the deployment and the
// plugin report the same.
func (w *world) health(name, component, reason string, words ...string) {
	GinkgoHelper()
	w.until(fmt.Sprintf("PodsHealthy of %s is %s with %q", component, reason, words), func() error {
		return w.unhealthy(name, component, reason, words)
	})
}

func (w *world) unhealthy(name, component, reason string, words []string) error {
	list := &trellisv1alpha1.ScalingGroupList{}
	if err := w.api.List(w.ctx, list, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	for _, sg := range list.Items {
		if sg.Spec.Graph != name || sg.Labels[render.LabelComponent] != component {
			continue
		}
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionPodsHealthy)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("PodsHealthy is %+v", c)
		}
		return contains(c.Message, words)
	}
	return fmt.Errorf("component %s of %s has no scaling group", component, name)
}

func contains(text string, words []string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("%q lacks %q", text, word)
		}
	}
	return nil
}

// state is what a peer has observed: see package peer.
type state struct {
	Leader, Index, GPUs string
	Pods                map[string]string
	Lookups             []struct {
		After          float64
		Address, Error string
	}
	Healthy   bool
	Exchanges int
}

// ask reads the state of a peer.
func ask(ctx context.Context, pod *corev1.Pod) (state, error) {
	s := state{}
	if pod.Status.PodIP == "" {
		return s, errors.New("the pod has no address")
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: cluster.DialNodes, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.Status.PodIP, "9090")+"/state", nil)
	if err != nil {
		return s, err
	}
	response, err := client.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// rackOf returns the rack of a pod's node.
func rackOf(ctx context.Context, pod *corev1.Pod) string {
	GinkgoHelper()
	node := &corev1.Node{}
	Expect(api.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)).To(Succeed())
	return node.Labels[simulated.RackKey]
}
