// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// topologyOfKAI waits until KAI's Topology of the world has these levels.
func (w *world) topologyOfKAI(want string) {
	GinkgoHelper()
	w.until("KAI's Topology is "+want, func() error {
		object, err := client.Resource(resources["Topology"]).Get(w.ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var keys []string
		for _, level := range read[kai.Topology](object).Spec.Levels {
			keys = append(keys, level.NodeLabel)
		}
		if got := strings.Join(keys, " > "); got != want {
			return errors.New("it is " + got)
		}
		return nil
	})
}

// binding waits until Grove's binding of the world has these levels, and returns it.
func (w *world) binding(want string) *unstructured.Unstructured {
	GinkgoHelper()
	var object *unstructured.Unstructured
	w.until("Grove's binding is "+want, func() (err error) {
		object, err = client.Resource(resources["ClusterTopologyBinding"]).Get(w.ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var levels []string
		for _, level := range read[topologybinding.Binding](object).Spec.Levels {
			levels = append(levels, level.Domain+"="+level.Key)
		}
		if got := strings.Join(levels, " > "); got != want {
			return errors.New("it is " + got)
		}
		return nil
	})
	return object
}

// groveWants waits until the object that Grove made of a component is scaled.
func (w *world) groveWants(component string, replicas int64) {
	GinkgoHelper()
	w.until(fmt.Sprintf("%s is scaled to %d", component, replicas), func() error {
		for _, object := range w.groveMade() {
			now, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
			if object.GetName() == w.name+"-0-"+component && now != replicas {
				return fmt.Errorf("it has %d", now)
			}
		}
		return nil
	})
}

func (w *world) clique(name string) grove.Clique {
	GinkgoHelper()
	pcs, _ := w.podCliqueSet()
	for _, clique := range pcs.Spec.Template.Cliques {
		if clique.Name == name {
			return clique
		}
	}
	Fail("the set has no clique " + name)
	return grove.Clique{}
}

func (w *world) groveHasImage(clique, image string) {
	GinkgoHelper()
	w.until("Grove has the image", func() error {
		if got := w.clique(clique).Spec.PodSpec.Containers[0].Image; got != image {
			return errors.New("it has " + got)
		}
		return nil
	})
}

func (w *world) free(pod *corev1.Pod) {
	GinkgoHelper()
	Expect(typed.Delete(w.ctx, pod)).To(Succeed())
}

func (w *world) of(component string) []corev1.Pod {
	GinkgoHelper()
	pods, err := w.pods()
	Expect(err).NotTo(HaveOccurred())
	var out []corev1.Pod
	for i := range pods {
		if pods[i].Labels[render.LabelComponent] == component && pods[i].DeletionTimestamp == nil {
			out = append(out, pods[i])
		}
	}
	return out
}

func (w *world) gone(component string) {
	GinkgoHelper()
	w.until(component+" has no pods", func() error {
		if n := len(w.of(component)); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}

// untilReleased waits until the pods of a replica were released.
func (w *world) untilReleased(component string, ordinal int32) {
	GinkgoHelper()
	w.until("it was released", func() error {
		pods := w.replica(component, ordinal)
		for i := range pods {
			if render.GateClosed(&pods[i]) {
				return fmt.Errorf("%s was not", pods[i].Name)
			}
		}
		if len(pods) == 0 {
			return errors.New("it has no pods")
		}
		return nil
	})
}

// replaced waits until a component has n pods of which none was there before what was done.
func (w *world) replaced(component string, n int, do func()) {
	GinkgoHelper()
	before := graphs.UIDs(w.of(component))
	do()
	w.until("the pods are new", func() error { return graphs.AllNew(before, w.of(component), n) })
}

// event waits for a Warning on the deployment.
func (w *world) event(reason, part string) {
	GinkgoHelper()
	w.until("there is an event "+reason, func() error {
		events := &eventsv1.EventList{}
		if err := typed.List(w.ctx, events, ctrlclient.InNamespace(w.ns)); err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.Regarding.Kind == "DynamoGraphDeployment" && e.Regarding.Name == w.name && e.Reason == reason && strings.Contains(e.Note, part) {
				return nil
			}
		}
		return fmt.Errorf("none among %d", len(events.Items))
	})
}

// withoutRacks takes the level rack out of the topology.
func (w *world) withoutRacks() {
	GinkgoHelper()
	ct := &grovev1alpha1.ClusterTopology{}
	Expect(typed.Get(w.ctx, ctrlclient.ObjectKey{Name: w.name}, ct)).To(Succeed())
	without := ct.DeepCopy()
	without.Spec.Levels = slices.DeleteFunc(without.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == "rack" })
	Expect(typed.Patch(w.ctx, without, ctrlclient.MergeFrom(ct))).To(Succeed())
}

func (w *world) cordon(host string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + host}}
	Expect(typed.Patch(w.ctx, node, ctrlclient.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
}

func (w *world) image(component, image string) {
	GinkgoHelper()
	w.patch(`{"spec":{"services":{%q:{"extraPodSpec":{"mainContainer":{"image":%q}}}}}}`, component, image)
}
