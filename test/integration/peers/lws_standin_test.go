// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/render"
)

// play does once what is LeaderWorkerSet's, the StatefulSets' and the garbage collector's.
func (w *lwsWorld) play() {
	GinkgoHelper()
	for _, object := range w.objects() {
		if object.GetDeletionTimestamp() != nil {
			w.collect(object)
			continue
		}
		w.makePods(object)
	}
}

func (w *lwsWorld) objects() []*unstructured.Unstructured {
	GinkgoHelper()
	list, err := client.Resource(resources[lws.Kind.Kind]).Namespace(w.ns).List(w.ctx, metav1.ListOptions{LabelSelector: w.selector})
	if apierrors.IsNotFound(err) {
		return nil // not served
	}
	w.must(err)
	var out []*unstructured.Unstructured
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// makePods makes what LeaderWorkerSet makes of a set, in its order: the leader's StatefulSet, the leader, the workers' StatefulSet, which the
// leader owns, and the workers; with the labels, names and variables that it gives them.
func (w *lwsWorld) makePods(object *unstructured.Unstructured) {
	GinkgoHelper()
	set := read[lws.LeaderWorkerSet](object)
	template := set.Spec.LeaderWorkerTemplate
	leaders := w.statefulSet(set, object, set.Name, *template.LeaderTemplate, 1)
	leader := w.pod(set, leaders, set.Name+"-0", 0, *template.LeaderTemplate)
	if leader == nil || leader.DeletionTimestamp != nil {
		return
	}
	workers := w.statefulSet(set, leader, leader.Name, template.WorkerTemplate, template.Size-1)
	for index := int32(1); index < template.Size; index++ {
		w.pod(set, workers, fmt.Sprintf("%s-%d", leader.Name, index), index, template.WorkerTemplate)
	}
}

func (w *lwsWorld) statefulSet(set *lws.LeaderWorkerSet, owner ctrl.Object, name string, template lws.PodTemplate, replicas int32) *appsv1.StatefulSet {
	GinkgoHelper()
	labels := map[string]string{"leaderworkerset.sigs.k8s.io/name": set.Name, "part": name}
	sts := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: labels, OwnerReferences: controlledBy(owner)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: set.Name, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(template.Metadata.Labels), Annotations: template.Metadata.Annotations}, Spec: template.Spec},
		},
	}
	maps.Copy(sts.Spec.Template.Labels, labels)
	err := typed.Create(w.ctx, sts)
	if apierrors.IsAlreadyExists(err) {
		err = typed.Get(w.ctx, ctrl.ObjectKeyFromObject(sts), sts)
	}
	w.must(err)
	return sts
}

func (w *lwsWorld) pod(set *lws.LeaderWorkerSet, owner *appsv1.StatefulSet, name string, index int32, template lws.PodTemplate) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.ns, Name: name, Labels: maps.Clone(template.Metadata.Labels), Annotations: template.Metadata.Annotations, OwnerReferences: controlledBy(owner),
	}}
	if w.held[name] {
		return nil
	}
	template.Spec.DeepCopyInto(&pod.Spec)
	pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.ServiceAccountName = name, owner.Spec.ServiceName, "" // no controller makes accounts known here
	for key, value := range map[string]string{"name": set.Name, "group-index": "0", "worker-index": fmt.Sprint(index)} {
		pod.Labels["leaderworkerset.sigs.k8s.io/"+key] = value
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Env = slices.Insert(c.Env, 0, corev1.EnvVar{Name: "LWS_LEADER_ADDRESS", Value: fmt.Sprintf("%s-0.%s.%s", set.Name, set.Name, w.ns)})
	}
	there := &corev1.Pod{} // a quota would count the create of a pod that exists
	err := typed.Get(w.ctx, ctrl.ObjectKeyFromObject(pod), there)
	if err == nil {
		return there
	}
	if apierrors.IsNotFound(err) {
		err = typed.Create(w.ctx, pod)
	}
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		return nil // a quota is used up, or another round was faster: it is created, or seen, the next time
	}
	w.must(err)
	return pod
}

func controlledBy(owner ctrl.Object) []metav1.OwnerReference {
	kind := owner.GetObjectKind().GroupVersionKind()
	switch owner.(type) {
	case *appsv1.StatefulSet:
		kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	case *corev1.Pod:
		kind = corev1.SchemeGroupVersion.WithKind("Pod")
	}
	return []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
}

// collect ends a set that is deleted in the foreground: first all that hangs from it, then the set.
func (w *lwsWorld) collect(object *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(object.GetFinalizers()).To(ContainElement(metav1.FinalizerDeleteDependents), "%s is not deleted in the foreground", object.GetName())
	mine := ctrl.MatchingLabels{"leaderworkerset.sigs.k8s.io/name": object.GetName()}
	w.must(typed.DeleteAllOf(w.ctx, &appsv1.StatefulSet{}, ctrl.InNamespace(w.ns), mine))
	w.must(typed.DeleteAllOf(w.ctx, &corev1.Pod{}, ctrl.InNamespace(w.ns), mine, ctrl.GracePeriodSeconds(0)))
	object = object.DeepCopy()
	object.SetFinalizers(nil)
	_, err := resourceOf(object).Update(w.ctx, object, metav1.UpdateOptions{})
	w.mustUnlessMoved(err)
}

// mustUnlessMoved lets pass what comes of an object that the operator changed or deleted since it was read: the next time it is read again.
func (w *lwsWorld) mustUnlessMoved(err error) {
	GinkgoHelper()
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		w.must(err)
	}
}

// run plays the scheduler, which acts on selectors and node affinity, and the kubelets, for the pods that were released.
func (w *lwsWorld) run() {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	w.must(typed.List(w.ctx, nodes, ctrl.HasLabels{w.ns + ".example.com/rack"}))
	busy := map[string]bool{}
	for _, pod := range w.pods() {
		busy[pod.Spec.NodeName] = true
	}
	for _, pod := range w.pods() {
		if render.GateClosed(pod) || pod.Spec.NodeName != "" {
			continue
		}
		for i := range nodes.Items {
			node := &nodes.Items[i]
			if busy[node.Name] || !selects(pod, node) {
				continue
			}
			busy[node.Name] = true
			w.mustUnlessMoved(w.runOn(pod, node.Name))
			break
		}
	}
}

func (w *lwsWorld) runOn(pod *corev1.Pod, node string) error {
	if err := typed.SubResource("binding").Create(w.ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
		return err
	}
	if err := typed.Get(w.ctx, ctrl.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	return typed.Status().Update(w.ctx, pod)
}
