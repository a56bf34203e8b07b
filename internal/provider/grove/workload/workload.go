// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload implements the provider Grove, which makes the pods of each deployment from one PodCliqueSet. Trellis plans nothing.
package workload

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/external/write"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Names of the CustomResourceDefinitions of Grove, and of the KAI definition whose existence shows that KAI schedules for Grove.
const (
	podCliqueSets = "podcliquesets.grove.io"
	bindings      = "clustertopologybindings.grove.io"
	kaiPodGroups  = "podgroups.scheduling.run.ai"
)

// Workload is the provider Grove.
type Workload struct {
	write.Writer
	// TopologyKept reports whether Trellis maintains the KAI Topology of each ClusterTopology. Otherwise Grove creates the Topologies
	// itself.
	TopologyKept func(context.Context) bool

	mu     sync.Mutex
	served served
}

// served is the result of the last probe.
type served struct {
	schema        grove.Schema
	kai, bindings bool
}

var _ provider.Workload = &Workload{}

// New returns the provider.
func New(writer client.Client, live client.Reader) *Workload {
	return &Workload{Writer: write.Writer{Client: writer, Live: live}, TopologyKept: func(context.Context) bool { return false }}
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=podcliquesets.grove.io;clustertopologybindings.grove.io;podgroups.scheduling.run.ai;schedulingshards.kai.scheduler,verbs=get
// +kubebuilder:rbac:groups=kai.scheduler,resources=schedulingshards,verbs=list
// +kubebuilder:rbac:groups=grove.io,resources=podcliquesets,verbs=create;get;list;patch;watch
// +kubebuilder:rbac:groups=grove.io,resources=podcliques;podcliquescalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=grove.io,resources=podcliques/scale;podcliquescalinggroups/scale,verbs=patch
// +kubebuilder:rbac:groups=grove.io,resources=clustertopologybindings,verbs=create;get;list;patch;watch

// Name implements provider.Provider.
func (*Workload) Name() string { return specs.Grove.Name }

// Probe implements provider.Provider: it checks that PodCliqueSets are served, and reads which fields they have.
func (w *Workload) Probe(ctx context.Context) (provider.State, error) {
	var now served
	for _, name := range []string{podCliqueSets, bindings, kaiPodGroups} {
		crd, err := w.Definition(ctx, name)
		if err != nil {
			return provider.State{}, err
		}
		if crd != nil {
			if why := write.NamesRefused(crd); why != "" {
				return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: why}, nil
			}
		}
		switch name {
		case podCliqueSets:
			known := false
			if crd != nil {
				now.schema, known = grove.ReadSchema(crd)
			}
			if !known {
				return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: name + " is not served; install Grove"}, nil
			}
		case bindings:
			now.bindings = crd != nil
		case kaiPodGroups:
			now.kai = crd != nil
		}
	}
	state, err := provider.Ready(), error(nil)
	if state.Message, err = w.evicts(ctx); err != nil {
		return provider.State{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served = now
	return state, nil
}

// evicts returns the warning of [kai.Evicts], which applies because Grove sets no staleness period on its PodGroups. It returns "" without
// KAI, or without the right to read KAI's SchedulingShards.
func (w *Workload) evicts(ctx context.Context) (string, error) {
	if crd, err := w.Definition(ctx, kai.SchedulingShards); crd == nil || err != nil {
		return "", err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kai.SchedulingShardKind)
	if err := w.Live.List(ctx, list); apierrors.IsForbidden(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the SchedulingShards of KAI: %w", err)
	}
	shards := make([]kai.SchedulingShard, len(list.Items))
	for i := range list.Items {
		if err := external.Read(&list.Items[i], &shards[i]); err != nil {
			return "", err
		}
	}
	return kai.Evicts(shards), nil
}

func (w *Workload) last() served {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served
}

// Unsuited implements provider.Provider.
func (w *Workload) Unsuited(groups []*trellisv1alpha1.ScalingGroup) string {
	if len(groups) == 0 {
		return ""
	}
	return strings.Join(grove.Problems(w.graphOf(groups, ""), w.last().schema), "; ")
}

// graphOf returns Grove's input for groups, which must not be empty. If the cluster has KAI, KAI schedules Grove's pods, and graphOf
// replaces an empty queue by the default queue. Without KAI, the input has no queue.
func (w *Workload) graphOf(groups []*trellisv1alpha1.ScalingGroup, queue string) grove.Input {
	g := grove.Input{Namespace: groups[0].Namespace, Name: groups[0].Spec.Graph, Groups: groups}
	if w.last().kai {
		g.Queue = queue
		if queue == "" {
			g.Queue = kai.DefaultQueue
		}
	}
	return g
}

// Watches implements provider.Provider: it watches the objects of each deployment, and ClusterTopologyBindings if this version of Grove has
// them. A binding belongs to no deployment and has no namespace.
func (w *Workload) Watches() []provider.Watch {
	var out []provider.Watch
	if w.last().bindings {
		binding := &unstructured.Unstructured{}
		binding.SetGroupVersionKind(grove.ClusterTopologyBindingKind)
		out = append(out, provider.Watch{Object: binding, Graph: provider.TopologyOf})
	}
	for _, kind := range []schema.GroupVersionKind{grove.PodCliqueSetKind, grove.PodCliqueKind, grove.PodCliqueScalingGroupKind} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		out = append(out, provider.Watch{Object: object, Graph: deploymentOf})
	}
	return out
}

// deploymentOf returns the deployment to which an object of Grove belongs. For a PodCliqueSet, it reads the owner reference. For any other
// object, it reads a label that contains the set's name, which is usually the deployment's name. If the set's name was shortened, this name
// belongs to no deployment. Trellis then misses the object's event, but sees the event of the set, whose status changes at the same time.
func deploymentOf(o client.Object) (types.NamespacedName, bool) {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "DynamoGraphDeployment" {
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, true
	}
	set := o.GetLabels()[grove.LabelPartOf]
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: set}, set != ""
}

// Apply implements provider.Workload.
func (w *Workload) Apply(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) error {
	if len(groups) == 0 {
		return nil
	}
	g := w.graphOf(groups, "")
	have, err := w.Get(ctx, grove.PodCliqueSetKind, g.Namespace, grove.SetName(g))
	if err != nil {
		return err
	}
	present := &grove.PodCliqueSet{}
	if have != nil {
		if err := external.Read(have, present); err != nil {
			return err
		}
	}
	g = w.graphOf(groups, kai.Queue(dgd.Annotations, dgd.Labels, grove.QueueOf(present)))
	g.UpdateStrategy, g.Overrides = dgd.Annotations[specs.AnnotationGroveUpdate], render.GroveOverrides(dgd)
	set := grove.Render(g, w.last().schema)
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
	if have != nil {
		grove.KeepPods(set, present)
	}
	grove.KeepGang(set, present, g)
	want, err := external.Object(set)
	if err != nil {
		return err
	}
	if err := w.Writer.Apply(ctx, dgd, want, have); err != nil {
		return err
	}
	for _, scale := range grove.Scales(g) {
		if err := w.scale(ctx, g.Namespace, scale); err != nil {
			return err
		}
	}
	return nil
}

// scale sets the replicas of an object that Grove made. It ignores a missing object, which Grove creates with the replicas of the template.
func (w *Workload) scale(ctx context.Context, namespace string, to grove.Scale) error {
	object, err := made(ctx, w.Live, namespace, to.Made)
	if object == nil || err != nil {
		return err
	}
	if now, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); now == int64(to.Replicas) {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to.Replicas))
	if err := w.Client.SubResource("scale").Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("scaling %s %s: %w", to.Kind.Kind, object.GetName(), err)
	}
	return nil
}

// KeepBinding creates or updates Grove's binding of a ClusterTopology, if this version of Grove has bindings. If it cannot, it returns the
// reason, otherwise "".
func (w *Workload) KeepBinding(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (string, error) {
	seen := w.last()
	if !seen.bindings || ct.FromBinding() { // Grove reads the Binding itself
		return "", nil
	}
	have, err := w.Get(ctx, grove.ClusterTopologyBindingKind, "", ct.Name)
	if err != nil {
		return "", err
	}
	if have != nil && !metav1.IsControlledBy(have, ct) {
		binding := &topologybinding.Binding{}
		if err := external.Read(have, binding); err != nil {
			return "", err
		}
		return grove.BindingDrift(ct, binding), nil
	}
	kaiTopology := ""
	if name, managed := kai.Reference(ct); managed && w.TopologyKept(ctx) {
		kaiTopology = name
	}
	binding, err := grove.RenderBinding(ct, kaiTopology)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is about the topology: reported in its status, and not to be tried again
	}
	want, err := external.Object(binding)
	if err != nil {
		return "", err
	}
	return "", w.Writer.Apply(ctx, ct, want, have)
}
