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

// kinds stores, by kind of pod, the spec that the API server stores. LimitRanges, RuntimeClasses, priority classes and webhooks change the
// spec of a new pod. Pods of one kind differ only in fields that do not affect these changes, such as names and environment variables. The
// zero value is ready to use.
type kinds struct {
	mu     sync.Mutex
	byKind map[string]kind
	byRole map[roleOfGroup]string
}

// kind describes the pods of one kind as the API server stores them, if the operator has seen such a pod.
type kind struct {
	// stored: the API server has returned a pod of the kind. spec is the spec of the first returned pod; nil if pods of the kind cannot be
	// created in place.
	stored bool
	spec   *corev1.PodSpec
}

// roleOfGroup identifies a role in a revision of a group. Its pods are of one kind.
type roleOfGroup struct {
	group          types.UID
	revision, role string
}

// maxKinds is the maximum number of entries of each map of kinds, roles or classes. A full map is cleared, and its entries are read again.
const maxKinds = 4096

// kindOf returns equal keys for pods that the API server is expected to change in the same way. The expectation may be wrong, so each
// created pod is compared with the expected pod.
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

// ofOthers returns a copy of labels or annotations without the keys of trellis.dev and nvidia.com, which differ between the pods of a
// group.
func ofOthers(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		own := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
		return own("trellis.dev") || own("nvidia.com")
	})
	return out
}

// of returns the kind of a pod of a group.
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

// triedOut reports whether the API server has returned a pod or an error for a kind.
func (k *kinds) triedOut(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, tried := k.byKind[name]
	return tried
}

// stored returns the spec that the API server stores for pods of a kind; nil if it is unknown, or if pods of the kind are created gated.
// The caller must not change the spec.
func (k *kinds) stored(name string) *corev1.PodSpec {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byKind[name].spec
}

// learn stores the first spec that the API server has returned for a kind, with Trellis' gate removed.
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

// cannotSay records that a dry run failed for a kind. Only the first created pod of the kind will show what the API server stores.
func (k *kinds) cannotSay(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.byKind[name].stored {
		k.put(name, kind{})
	}
}

// put sets the entry of a kind. Called with the lock held.
func (k *kinds) put(name string, of kind) {
	if k.byKind == nil || len(k.byKind) >= maxKinds {
		k.byKind = map[string]kind{}
	}
	k.byKind[name] = of
}

// differ records that the API server has stored a pod that differs from the expected pod of its kind. The kind gets no further dry run. The
// next pod of the kind is created gated, and shows what the API server stores.
func (k *kinds) differ(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(name, kind{})
}

// tryOut learns from a dry run what the API server would store for a pod. If the dry run fails, for example because of a webhook with side
// effects, pods of the kind are created gated until the API server has stored a pod of the kind.
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

// learn stores in kinds what the API server has stored for a new gated pod.
func (r *Reconciler) learn(sg *trellisv1alpha1.ScalingGroup, stored *corev1.Pod) {
	if r.Asks != nil && gang.InPlace(sg) {
		r.kinds.learn(r.kinds.of(sg, stored), stored)
	}
}
