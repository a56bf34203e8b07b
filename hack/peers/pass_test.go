// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// noneBound checks that no pod of a service has a node, and that none gets one in a full pass of its scheduler.
func (w *world) noneBound(service string) {
	GinkgoHelper()
	w.pass(func(pod *corev1.Pod) error {
		if isOf(pod, "g", service) && pod.Spec.NodeName != "" {
			return fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
		}
		return nil
	})
}

// pass lets the provider and its scheduler place two deployments, which fit, and calls look with every state of the world's pods until
// then. The second is created when the first is bound, so that the scheduling cycle of the second begins after the call of pass.
func (w *world) pass(look func(*corev1.Pod) error) {
	GinkgoHelper()
	pods := w.listed()
	for i := range pods.Items {
		Expect(look(&pods.Items[i])).To(Succeed())
	}
	version := pods.ResourceVersion
	for _, name := range []string{"pass-1", "pass-2"} {
		other := w.graph(name, "zone", services{"Frontend": frontend(1)})
		w.create(other)
		version = w.untilBound(name, version, look)
		w.remove(other)
	}
}

// untilBound follows the world's pods from a resource version on until a pod of a deployment has a node, and returns the version of that
// state.
func (w *world) untilBound(name, version string, look func(*corev1.Pod) error) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(w.ctx, suite.Patience())
	defer cancel()
	pods := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return api.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Namespace: w.name, Raw: &options})
	}}
	last, err := watchtools.Until(ctx, version, pods, func(event watch.Event) (bool, error) {
		pod, is := event.Object.(*corev1.Pod)
		switch {
		case !is:
			return false, apierrors.FromObject(event.Object)
		case event.Type == watch.Deleted:
			return false, nil
		}
		return isOf(pod, name, "") && pod.Spec.NodeName != "", look(pod)
	})
	Expect(err).NotTo(HaveOccurred(), "until a pod of %s is bound", name)
	return last.Object.(*corev1.Pod).ResourceVersion
}
