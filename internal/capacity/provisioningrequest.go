// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// RequestKind is the kind of Cluster Autoscaler's ProvisioningRequest.
var RequestKind = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1", Kind: "ProvisioningRequest"}

// ProvisioningClass makes Cluster Autoscaler add nodes for all pods at once, or for none.
const ProvisioningClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

// Limits: maxPodSets is the number of podsets that the CustomResourceDefinition allows. maxName is the maximum number of bytes that Trellis
// copies from a deployment's name, and maxMessage the maximum number of bytes from an autoscaler's message.
const (
	maxPodSets = 32
	maxName    = 50
	maxMessage = 512
)

// Conditions that the autoscaler sets on a ProvisioningRequest.
const (
	conditionFailed  = "Failed"
	conditionExpired = "BookingExpired"
	conditionRevoked = "CapacityRevoked"
)

// ProvisioningRequest has the fields that Trellis sets and reads.
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ProvisioningRequestSpec   `json:"spec"`
	Status            ProvisioningRequestStatus `json:"status,omitzero"`
}

// ProvisioningRequestSpec is the immutable spec.
type ProvisioningRequestSpec struct {
	PodSets               []RequestedPods `json:"podSets"`
	ProvisioningClassName string          `json:"provisioningClassName"`
}

// RequestedPods is a number of pods from one PodTemplate.
type RequestedPods struct {
	PodTemplateRef TemplateRef `json:"podTemplateRef"`
	Count          int32       `json:"count"`
}

// TemplateRef names a PodTemplate in the same namespace.
type TemplateRef struct {
	Name string `json:"name"`
}

// ProvisioningRequestStatus is written by the autoscaler.
type ProvisioningRequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Request is an existing ProvisioningRequest.
type Request struct {
	Namespace, Name string
	UID             types.UID
	// Ask is the name of the capacity request; Graph is the UID of the deployment.
	Ask     string
	Graph   types.UID
	Created time.Time
	// Leaving: the request is being deleted.
	Leaving bool
	// Templates are the names of the request's PodTemplates.
	Templates []string
	// Pods is the number of requested pods.
	Pods int
	// Over is the reason why the autoscaler no longer acts on the request; "" while it acts on it.
	Over string
}

// Observed returns the parts of a ProvisioningRequest on which the plan depends.
func (p *ProvisioningRequest) Observed() Request {
	r := Request{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Ask: p.Labels[LabelAsk], Graph: types.UID(p.Labels[LabelGraphUID]),
		Created: p.CreationTimestamp.Time, Leaving: p.DeletionTimestamp != nil, Over: p.over(),
	}
	for _, set := range p.Spec.PodSets {
		r.Pods += int(set.Count)
		if name := set.PodTemplateRef.Name; strings.HasPrefix(name, p.Name+"-") { // otherwise the template belongs to another object
			r.Templates = append(r.Templates, name)
		}
	}
	return r
}

func (p *ProvisioningRequest) over() string {
	for _, kind := range []string{conditionFailed, conditionRevoked, conditionExpired} {
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return fmt.Sprintf("the autoscaler reports %s of ProvisioningRequest %s: %s", kind, p.Name, limit.Text(cmp.Or(c.Message, c.Reason),
				maxMessage))
		}
	}
	return ""
}

// Request returns the ProvisioningRequest for a capacity request, and its PodTemplates, which must be created first. The deployment owns
// all of them. exclude contains, for each set, the hosts that have space for some of the pods but do not help the gang. The pods' node
// affinity excludes up to MaxExcluded of these hosts.
func (a *Ask) Request(exclude [][]string) (*ProvisioningRequest, []*corev1.PodTemplate) {
	g := a.Gang
	name := strings.TrimRight(g.Graph.Name[:min(len(g.Graph.Name), maxName)], "-.") + "-" + a.Name
	owner := metav1.OwnerReference{
		APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: g.Graph.Name, UID: g.UID,
		BlockOwnerDeletion: ptr.To(false),
	}
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: g.Graph.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{LabelAsk: a.Name, LabelGraphUID: string(g.UID)},
		}
	}
	request := &ProvisioningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: RequestKind.GroupVersion().String(), Kind: RequestKind.Kind},
		ObjectMeta: object(name), Spec: ProvisioningRequestSpec{ProvisioningClassName: ProvisioningClass},
	}
	var templates []*corev1.PodTemplate
	for i := range g.Sets {
		template := g.Sets[i].Template.DeepCopy()
		complete(template, a.Name, string(g.UID), i)
		template.Spec.Containers[0].Image = PlaceholderImage
		avoid(&template.Spec, exclude[i])
		one := &corev1.PodTemplate{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}, ObjectMeta: object(fmt.Sprintf("%s-%d", name, i)), Template: *template,
		}
		templates = append(templates, one)
		request.Spec.PodSets = append(request.Spec.PodSets, RequestedPods{PodTemplateRef: TemplateRef{Name: one.Name}, Count: g.Sets[i].Count})
	}
	return request, templates
}
