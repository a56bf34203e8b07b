// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placer implements the provider KAI: Trellis plans and pins, and KAI Scheduler binds each gang as a unit.
//
// The pods of a gang are gated until the gang is placed. Then Trellis adds the gang's replicas to the deployment's PodGroup, and removes
// the gates. When a replica is gone or waits again, Trellis removes it from the PodGroup.
package placer

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/external/write"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Names of the CustomResourceDefinitions of KAI.
const (
	podGroups  = "podgroups.scheduling.run.ai"
	topologies = "topologies.kai.scheduler"
)

// Placer is the provider KAI. It releases and requeues gangs as Gates does.
type Placer struct {
	gates.Placer
	write.Writer
	forming *forming
}

var (
	_ provider.Placer    = Placer{}
	_ provider.Router    = Placer{}
	_ provider.Trimmer   = Placer{}
	_ provider.Forgetter = Placer{}
	_ provider.Adopter   = Placer{}
)

// New returns the provider.
func New(writer client.Client, live client.Reader) Placer {
	return Placer{
		Placer: gates.Placer{Client: writer, Live: live}, Writer: write.Writer{Client: writer, Live: live}, forming: newForming(),
	}
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=podgroups.scheduling.run.ai;topologies.kai.scheduler,verbs=get
// +kubebuilder:rbac:groups=scheduling.run.ai,resources=podgroups,verbs=create;get;list;patch;watch
// +kubebuilder:rbac:groups=kai.scheduler,resources=topologies,verbs=create;delete;get;list;patch;watch

// Name implements provider.Provider.
func (Placer) Name() string { return specs.KAI.Name }

// Probe implements provider.Provider: it checks that both kinds are served, and that PodGroups have all fields that Trellis writes.
func (p Placer) Probe(ctx context.Context) (provider.State, error) {
	for _, name := range []string{podGroups, topologies} {
		crd, err := p.Definition(ctx, name)
		if err != nil {
			return provider.State{}, err
		}
		if crd == nil {
			return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed,
				Message: fmt.Sprintf("%s is not served; install KAI Scheduler 0.15 or newer", name)}, nil
		}
		if name != podGroups {
			continue
		}
		if why := kai.Served(crd); why != "" {
			return provider.State{Reason: nvidiav1beta1.ReasonFieldsDropped, Message: why}, nil
		}
	}
	return provider.Ready(), nil
}

// Unsuited implements provider.Provider.
func (Placer) Unsuited(groups []*trellisv1alpha1.ScalingGroup) string {
	return strings.Join(kai.Input{Groups: groups}.Problems(), "; ")
}

// Watches implements provider.Provider: it watches PodGroups, for KAI's reports, and Topologies, which belong to no deployment and have no
// namespace.
func (Placer) Watches() []provider.Watch {
	podGroup, topology := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	podGroup.SetGroupVersionKind(kai.PodGroupKind)
	topology.SetGroupVersionKind(kai.TopologyKind)
	return []provider.Watch{
		{Object: podGroup, Graph: func(o client.Object) (types.NamespacedName, bool) {
			owner := metav1.GetControllerOf(o)
			if owner == nil || owner.Kind != "DynamoGraphDeployment" {
				return types.NamespacedName{}, false
			}
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, true
		}},
		{Object: topology, Graph: provider.TopologyOf},
	}
}

// Prepare implements provider.Placer.
func (Placer) Prepare(sg *trellisv1alpha1.ScalingGroup, _ int32, fresh, _ []*corev1.Pod) {
	for _, pod := range fresh {
		kai.Input{}.Prepare(pod, sg)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, render.AnnotationPodProvider, specs.KAI.Name)
	}
}

// Route implements provider.Router: KAI also schedules pods without a constraint, because otherwise these pods would use resources that
// their queue has not been granted. KAI's own grouper makes a PodGroup for each of these pods.
func (Placer) Route(sg *trellisv1alpha1.ScalingGroup, fresh []*corev1.Pod) {
	for _, pod := range fresh {
		pod.Spec.SchedulerName = kai.SchedulerName
		if pod.Labels[kai.LabelQueue] == "" {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, kai.LabelQueue, render.LabelValue(kai.Queue(sg.Annotations, nil, "")))
		}
	}
}

// Kept implements provider.Placer.
func (Placer) Kept(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if pod.Annotations[render.AnnotationPodProvider] != specs.KAI.Name || !kai.Prepared(pod) {
			return false
		}
	}
	return true
}

// Release implements provider.Placer: the pod becomes a member of the PodGroup, which already lists the pod's replica. To make room for a
// preempting gang, KAI evicts victims in its own order. If the gang were pinned to the planned rack or hosts, KAI would first evict pods
// elsewhere. Release therefore pins a preempting gang only to its broadest domain, and the constraint of each leaf makes KAI keep the
// leaf's pods in one rack. KAI does not know which pods must be on separate hosts, so such pods keep all their pins.
func (p Placer) Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	if pin.Preempts && !pin.Apart {
		pin.Labels, pin.Node = pin.Wide, ""
	}
	pin.PodLabels, pin.PodAnnotations = kai.Membership(pin.Graph, pod)
	return p.Placer.Release(ctx, pod, pin)
}

// Objections implements provider.Placer: it returns KAI's report on the deployment's PodGroup if the report is newer than the pod.
// Otherwise it returns KAI's message on the pod.
func (Placer) Objections(ctx context.Context, own client.Reader, unbound, _ []*corev1.Pod) map[types.UID]gang.Objection {
	out := map[types.UID]gang.Objection{}
	word, said := reportOnGroup(ctx, own, unbound[0])
	for _, pod := range unbound {
		switch why := wordOnPod(pod); {
		case pod.Status.NominatedNodeName != "": // it waits until its preempted pods have gone
		case said && !word.Since.Time.Before(pod.CreationTimestamp.Time):
			out[pod.UID] = gang.Objection{Message: word.Message, Anywhere: word.Anywhere}
		case why != "":
			out[pod.UID] = gang.Objection{Message: why, Passing: kai.Stale(why), Anywhere: kai.Anywhere(why)}
		}
	}
	return out
}

// reportOnGroup returns KAI's last report on the graph's PodGroup. KAI does not remove the report when the pods are placed.
func reportOnGroup(ctx context.Context, own client.Reader, pod *corev1.Pod) (kai.Pending, bool) {
	if own == nil {
		return kai.Pending{}, false
	}
	object, pg := &unstructured.Unstructured{}, &kai.PodGroup{}
	object.SetGroupVersionKind(kai.PodGroupKind)
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Annotations[kai.AnnotationPodGroup]}
	if own.Get(ctx, key, object) != nil || external.Read(object, pg) != nil {
		return kai.Pending{}, false // gone or unreadable: nothing is known
	}
	return kai.WhyWaiting(pg)
}

func wordOnPod(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return external.Message("KAI: " + c.Message)
		}
	}
	return ""
}
