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

// RequestKind is what Cluster Autoscaler is asked by.
var RequestKind = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1", Kind: "ProvisioningRequest"}

// ProvisioningClass has Cluster Autoscaler add the nodes for all pods at once, or none.
const ProvisioningClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

// Bounds: of podsets, by the definition; of what is taken from the deployment's name; of what is taken over from the autoscaler's
// messages, in bytes.
const (
	maxPodSets = 32
	maxName    = 50
	maxMessage = 512
)

// Conditions of a ProvisioningRequest that the autoscaler sets.
const (
	conditionFailed  = "Failed"
	conditionExpired = "BookingExpired"
	conditionRevoked = "CapacityRevoked"
)

// ProvisioningRequest has what Trellis sets and reads.
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ProvisioningRequestSpec   `json:"spec"`
	Status            ProvisioningRequestStatus `json:"status,omitzero"`
}

// ProvisioningRequestSpec is immutable.
type ProvisioningRequestSpec struct {
	PodSets               []RequestedPods `json:"podSets"`
	ProvisioningClassName string          `json:"provisioningClassName"`
}

// RequestedPods are pods of one PodTemplate.
type RequestedPods struct {
	PodTemplateRef TemplateRef `json:"podTemplateRef"`
	Count          int32       `json:"count"`
}

// TemplateRef names a PodTemplate of the same namespace.
type TemplateRef struct {
	Name string `json:"name"`
}

// ProvisioningRequestStatus is the autoscaler's.
type ProvisioningRequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Request is a ProvisioningRequest that exists.
type Request struct {
	Namespace, Name string
	UID             types.UID
	// Ask it belongs to, and the deployment that it is for.
	Ask     string
	Graph   types.UID
	Created time.Time
	// Leaving: it is being deleted.
	Leaving bool
	// Templates are the names of its PodTemplates.
	Templates []string
	// Pods is how many pods the autoscaler is asked for.
	Pods int
	// Over is why the autoscaler does nothing for it any more; "" while it does.
	Over string
}

// Observed is what is decided by of a ProvisioningRequest.
func (p *ProvisioningRequest) Observed() Request {
	r := Request{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Ask: p.Labels[LabelAsk], Graph: types.UID(p.Labels[LabelGraphUID]),
		Created: p.CreationTimestamp.Time, Leaving: p.DeletionTimestamp != nil, Over: p.over(),
	}
	for _, set := range p.Spec.PodSets {
		r.Pods += int(set.Count)
		if name := set.PodTemplateRef.Name; strings.HasPrefix(name, p.Name+"-") { // else it is another's
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

// Request is the ProvisioningRequest of an ask, and its PodTemplates, which have to exist before it. Their owner is the deployment.
// exclude are, by set, hosts that are not to be counted, since they have room for some of the pods and do not help the gang.
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
