// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	asked "github.com/trellis-k8s/trellis/internal/capacity"
	capacitycontroller "github.com/trellis-k8s/trellis/internal/controller/capacity"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// autoscaler is played by the specs: no node is added but by them.
type autoscaler struct {
	*bare
	namespace string
	api       client.WithWatch
}

// newAutoscaler runs an operator that asks for capacity, on an API server with the definition of ProvisioningRequests.
func newAutoscaler(ctx context.Context) *autoscaler {
	GinkgoHelper()
	a := &autoscaler{bare: newBareWith(ctx, client.New, func(o *Options) {
		o.Capacity = capacitycontroller.Options{Kinds: asked.Kinds, Limits: asked.Limits{MaxPods: 8, Settle: 1}, NewNodeLabels: asked.NewNodeLabels, Image: asked.PlaceholderImage}
	})}
	var err error
	a.api, err = client.NewWithWatch(a.config, client.Options{Scheme: NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	a.namespace = newNamespace(a.c)
	a.install(filepath.Join("testdata", "autoscaling.x-k8s.io_provisioningrequests.yaml"), &apiextensionsv1.CustomResourceDefinition{})
	a.install(filepath.Join("..", "..", "config", "capacity", "priorityclass.yaml"), &schedulingv1.PriorityClass{})
	a.install("", &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "rack", Key: "example.com/rack"}}}})
	return a
}

// install creates an object that no namespace has until the spec ends, from a file if one is named.
func (a *autoscaler) install(file string, o client.Object) {
	GinkgoHelper()
	if file != "" {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.Unmarshal(text, o)).To(Succeed())
	}
	a.until("it is created", func() error { return a.c.Create(a.ctx, o) }) // that of the spec before may still be ending
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(a.c.Delete(ctx, o)) })
}

// waits creates a deployment of one worker with pods of 8 GPUs, in one rack, whose capacity is asked for in a way.
func (a *autoscaler) waits(kind string, pods int32) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := deployment(a.namespace, graphs.Components{"Worker": graphs.Worker(1, pods, 8, "rack")})
	dgd.Annotations = map[string]string{asked.AnnotationKind: kind}
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: a.namespace}
	Expect(a.c.Create(a.ctx, dgd)).To(Succeed())
	return dgd
}

// adds a node with 8 GPUs in a zone and rack.
func (a *autoscaler) adds(name, zone, rack string, bound ...*corev1.Pod) {
	GinkgoHelper()
	name = a.namespace + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, "example.com/rack": rack}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("100"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("99")},
		},
	}
	a.install("", node)
	for _, pod := range bound {
		Expect(a.c.SubResource("binding").Create(a.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}})).To(Succeed())
	}
	node.Spec.Taints = nil // admission adds one, which a controller removes when the node is ready
	Expect(a.c.Update(a.ctx, node)).To(Succeed())
}

// requests are the ProvisioningRequests.
func (a *autoscaler) requests() ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(asked.RequestKind.GroupVersion().WithKind("ProvisioningRequestList"))
	err := a.c.List(a.ctx, list, client.InNamespace(a.namespace))
	return list.Items, err
}

// request waits for the only one.
func (a *autoscaler) request() *asked.ProvisioningRequest {
	GinkgoHelper()
	one := &asked.ProvisioningRequest{}
	a.until("there is a ProvisioningRequest", func() error {
		list, err := a.requests()
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("there are %d", len(list))
		}
		if err != nil {
			return err
		}
		return external.Read(&list[0], one)
	})
	return one
}

// says sets a condition of a request.
func (a *autoscaler) says(name, kind, message string) {
	GinkgoHelper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(asked.RequestKind)
	Expect(a.c.Get(a.ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, o)).To(Succeed())
	before := o.DeepCopy()
	Expect(unstructured.SetNestedSlice(o.Object, []any{map[string]any{
		"type": kind, "status": "True", "reason": "Played", "message": message, "lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
	}}, "status", "conditions")).To(Succeed())
	Expect(a.c.Status().Patch(a.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// gone waits until nothing is asked for.
func (a *autoscaler) gone() {
	GinkgoHelper()
	a.until("nothing is asked for", func() error {
		requests, err := a.requests()
		templates := &corev1.PodTemplateList{}
		err = errors.Join(err, a.c.List(a.ctx, templates, client.InNamespace(a.namespace)))
		placeholders := a.placeholders()
		if n := len(requests) + len(templates.Items) + len(placeholders); err == nil && n > 0 {
			return fmt.Errorf("there are %d requests, %d templates and %d placeholders", len(requests), len(templates.Items), len(placeholders))
		}
		return err
	})
}

func (a *autoscaler) placeholders() []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(a.c.List(a.ctx, list, client.InNamespace("default"), client.HasLabels{asked.LabelAsk})).To(Succeed())
	return list.Items
}

// released waits until all pods of a deployment are released to a zone and rack.
func (a *autoscaler) released(zone, rack string, pods int) {
	GinkgoHelper()
	a.until("the gang is released", func() error {
		list := a.pods(a.namespace)
		if len(list) != pods {
			return fmt.Errorf("there are %d pods", len(list))
		}
		for i := range list {
			if s := list[i].Spec.NodeSelector; render.GateClosed(&list[i]) || s[corev1.LabelTopologyZone] != zone || s["example.com/rack"] != rack {
				return fmt.Errorf("%s has gates %v and is pinned to %v", list[i].Name, list[i].Spec.SchedulingGates, s)
			}
		}
		return nil
	})
}

// reported waits for an event about a deployment.
func (a *autoscaler) reported(dgd *nvidiav1alpha1.DynamoGraphDeployment, reason, text string) {
	GinkgoHelper()
	a.until("there is an event "+reason, func() error {
		list := &eventsv1.EventList{}
		if err := a.c.List(a.ctx, list, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == dgd.UID && e.Reason == reason && strings.Contains(e.Note, text)
		}) {
			return fmt.Errorf("none of %d events is", len(list.Items))
		}
		return nil
	})
}

// bind binds a placeholder as the kube-scheduler does.
// order notes what happens to pods: a bound placeholder is gone, or a pod of the deployment is released.
func (a *autoscaler) order() func() []string {
	GinkgoHelper()
	w, err := a.api.Watch(a.ctx, &corev1.PodList{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Stop)
	mu, seen, out := sync.Mutex{}, map[types.UID]bool{}, []string{}
	note := func(pod *corev1.Pod, what string) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[pod.UID] {
			seen[pod.UID], out = true, append(out, what)
		}
	}
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			switch {
			case !ok:
			case pod.Labels[asked.LabelAsk] != "" && e.Type == watch.Deleted && pod.Spec.NodeName != "":
				note(pod, "a placeholder is gone")
			case pod.Namespace == a.namespace && pod.Annotations[render.AnnotationGang] != "":
				note(pod, "a pod is released")
			}
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(out)
	}
}

var _ = Describe("Capacity that is asked for", func() {
	It("by a ProvisioningRequest is whole, and ends when the gang is placed", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		a := newAutoscaler(ctx)
		dgd := a.waits(asked.KindProvisioningRequest, 2)
		request := a.request()
		Expect(request.Spec.ProvisioningClassName).To(Equal(asked.ProvisioningClass))
		Expect(request.OwnerReferences).To(ConsistOf(HaveField("UID", dgd.UID)))
		Expect(request.Spec.PodSets).To(ConsistOf(HaveField("Count", int32(2))))
		template := &corev1.PodTemplate{}
		Expect(a.c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: request.Spec.PodSets[0].PodTemplateRef.Name}, template)).To(Succeed())
		Expect(template.Template.Spec.Containers[0].Resources.Requests.Name("nvidia.com/gpu", resource.DecimalSI).Value()).To(Equal(int64(8)))
		Expect(template.Template.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution).To(ConsistOf(HaveField("TopologyKey", corev1.LabelTopologyZone)))
		a.reported(dgd, capacitycontroller.EventRequested, "2 pods x 8 nvidia.com/gpu requested with ProvisioningRequest")

		a.says(request.Name, "Provisioned", "two nodes")
		a.adds("0", "a", "r0")
		a.adds("1", "a", "r0")
		a.released("a", "r0", 2)
		a.gone()
	})

	It("ends, and is not asked for again at once, when the autoscaler has failed", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		a := newAutoscaler(ctx)
		dgd := a.waits(asked.KindProvisioningRequest, 2)
		a.says(a.request().Name, "Failed", "no machine of the kind is left")
		a.reported(dgd, capacitycontroller.EventGivenUp, "no machine of the kind is left; it is asked for again after 5m0s")
		a.gone()
	})

	It("by placeholders is counted as free, and given back before the gang is released", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		a := newAutoscaler(ctx)
		a.adds("old", "a", "r9")
		dgd := a.waits(asked.KindPlaceholders, 2)
		a.until("there are two placeholders", func() error {
			if n := len(a.placeholders()); n != 2 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		all := a.placeholders()
		for i := range all {
			Expect(all[i].Spec.Priority).To(Equal(ptr.To[int32](asked.Priority)))
			Expect(all[i].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms).To(ConsistOf(HaveField("MatchExpressions",
				ConsistOf(HaveField("Values", ConsistOf(a.namespace+"-old"))))), "the host that has room for one pod, and does not help the gang")
		}
		a.reported(dgd, capacitycontroller.EventRequested, "2 pods x 8 nvidia.com/gpu requested with Placeholders")

		a.until("the deployment says so", func() error {
			Expect(a.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd)).To(Succeed())
			if c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced); c == nil || !strings.HasSuffix(c.Message, "; capacity is requested with Placeholders: 2 pods x 8 nvidia.com/gpu") {
				return fmt.Errorf("it says %+v", c)
			}
			return nil
		})
		happens := a.order()
		a.adds("0", "a", "r0", &all[0])
		a.adds("1", "a", "r0", &all[1])
		a.released("a", "r0", 2)
		a.gone()
		Eventually(ctx, happens).Should(Equal([]string{"a placeholder is gone", "a placeholder is gone", "a pod is released", "a pod is released"}))
	})

	It("ends with the deployment", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		a := newAutoscaler(ctx)
		dgd := a.waits(asked.KindPlaceholders, 2)
		a.until("there are placeholders", func() error {
			if len(a.placeholders()) == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		Expect(a.c.Delete(ctx, dgd)).To(Succeed())
		a.gone()
	})

	It("is never for a gang that is larger than the bound, or by what nobody allows", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		a := newAutoscaler(ctx)
		dgd := a.waits(asked.KindPlaceholders, 9)
		a.reported(dgd, capacitycontroller.EventNotRequested, "it has 9 pods, and at most 8 are asked for at once")
		Expect(a.c.Delete(ctx, dgd)).To(Succeed())
		a.until("it is gone", func() error {
			err := a.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("it is there"))
		})
		dgd = a.waits("Nodes", 2)
		a.reported(dgd, capacitycontroller.EventNotRequested, `"Nodes"; use one of Placeholders, ProvisioningRequest, None`)
		a.gone()
	})
})
