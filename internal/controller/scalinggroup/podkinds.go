// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// kinds remembers what the API server stores of pods, which LimitRanges, RuntimeClasses, priority classes and webhooks change. Pods that
// differ only in what none of these goes by, such as their names and their environment, are of one kind. The zero value is ready to use.
type kinds struct {
	mu     sync.Mutex
	byKind map[string]kind
	byRole map[roleOfGroup]string
}

// kind is what is known of the pods of one kind.
type kind struct {
	// stored: the API server has said what it stores. spec is that of the pod it stored first; nil where such pods cannot be created in
	// their places.
	stored bool
	spec   *corev1.PodSpec
}

// roleOfGroup has pods of one kind.
type roleOfGroup struct {
	group          types.UID
	revision, role string
}

// maxKinds bounds what is remembered. When there are more, all is learnt anew.
const maxKinds = 4096

// kindOf is equal for pods that the API server is expected to change in the same way. Every answer is compared with what was expected all
// the same.
func kindOf(pod *corev1.Pod) string {
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", "", "", ""
	spec.InitContainers, spec.Containers = withoutEnv(spec.InitContainers), withoutEnv(spec.Containers)
	text, err := json.Marshal([]any{pod.Namespace, ofOthers(pod.Labels), ofOthers(pod.Annotations), spec})
	if err != nil {
		return pod.Namespace + "/" + pod.Name // of its own kind
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

func withoutEnv(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(containers))
	for _, c := range containers {
		c.Env, c.EnvFrom, c.Command, c.Args = nil, nil, nil, nil
		out = append(out, c)
	}
	return out
}

// ofOthers leaves out the labels and annotations that Trellis gives pods itself, which differ for each.
func ofOthers(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		own := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
		return own("trellis.dev") || own("nvidia.com")
	})
	return out
}

// of is the kind of a pod of a group.
func (k *kinds) of(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) string {
	key := roleOfGroup{group: sg.UID, revision: sg.Spec.Revision, role: pod.Labels[render.LabelRole]}
	k.mu.Lock()
	defer k.mu.Unlock()
	if name, known := k.byRole[key]; known {
		return name
	}
	if k.byRole == nil || len(k.byRole) >= maxKinds {
		k.byRole = map[roleOfGroup]string{}
	}
	k.byRole[key] = kindOf(pod)
	return k.byRole[key]
}

// triedOut reports whether the API server was asked about a kind and has answered.
func (k *kinds) triedOut(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, tried := k.byKind[name]
	return tried
}

// stored is what the API server stores of pods of a kind, which must not be changed; nil when that is not known, or such pods are created
// gated.
func (k *kinds) stored(name string) *corev1.PodSpec {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byKind[name].spec
}

// learn remembers the first pod of a kind that the API server has stored, without Trellis' gate.
func (k *kinds) learn(name string, stored *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKind[name].stored {
		return
	}
	now := kind{stored: true}
	if len(render.ForeignGates(stored)) == 0 && stored.Spec.NodeName == "" && gang.Foreseeable(stored) {
		now.spec = stored.Spec.DeepCopy()
		now.spec.SchedulingGates = nil
	}
	k.put(name, now)
}

// cannotSay notes that the API server does not say what it stores of a kind before it has stored one.
func (k *kinds) cannotSay(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.byKind[name].stored {
		k.put(name, kind{})
	}
}

// put notes what is known of a kind. Called with the lock held.
func (k *kinds) put(name string, of kind) {
	if k.byKind == nil || len(k.byKind) >= maxKinds {
		k.byKind = map[string]kind{}
	}
	k.byKind[name] = of
}

// differ notes that the API server has stored a pod of a kind that differs from what is known of it. What it answers to a dry run is not
// asked again: the first pod that is created gated says what is stored.
func (k *kinds) differ(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(name, kind{})
}

// tryOut asks the API server what it would store of a pod. Where it cannot say so, as with a webhook that has side effects, such pods are
// created gated until one has been stored.
func (r *Reconciler) tryOut(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, name string, pod *corev1.Pod) {
	trial := pod.DeepCopy()
	trial.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	if err := r.Client.Create(ctx, trial, client.DryRunAll, client.DisableReadYourWritesConsistency); err != nil {
		log.FromContext(ctx).Info("what the API server stores of a pod is not known before it is created", "pod", pod.Name, "reason", err.Error())
		r.kinds.cannotSay(name)
		return
	}
	r.kinds.learn(name, trial)
}

// learn remembers what the API server has stored of a pod that was created gated.
func (r *Reconciler) learn(sg *trellisv1alpha1.ScalingGroup, stored *corev1.Pod) {
	if r.Asks != nil && gang.InPlace(sg) {
		r.kinds.learn(r.kinds.of(sg, stored), stored)
	}
}
