// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package strip limits how much metadata of objects is kept in caches. Tenants write this metadata, and the API server allows on each
// object 256 KiB of annotations, and labels and owners up to the size of a request, 1.5 MiB.
//
//	a Service with kubectl.kubernetes.io/last-applied-configuration, 200 KiB, and trellis.dev/applied-metadata, 16 bytes
//	kept: trellis.dev/applied-metadata
//
// Cached objects are never written as a whole: a patch is the difference between two of them, so stripped metadata stays in the cluster.
// Owners and finalizers are lists, which a patch replaces, so they are kept where a patch may contain them.
package strip

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxBytes limits the annotations, and the labels, that are kept of one object, in bytes of keys and values.
	MaxBytes = 8 << 10
	// MaxOwners limits the owner references that are kept where they are only read.
	MaxOwners = 4
	// AnnotationLeftOut marks cached objects with stripped metadata that could be compared. It exists in caches only.
	AnnotationLeftOut = "trellis.dev/left-out-of-cache"
)

// domains are the domains of annotations that Trellis reads.
var domains = []string{"trellis.dev", "nvidia.com", "grove.io", "kai.scheduler", "kueue.x-k8s.io"}

// undomained are the annotations without a domain that Trellis reads.
var undomained = []string{"pod-group-name"}

// read reports whether Trellis may read an annotation.
func read(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	return slices.Contains(undomained, key) || has && slices.ContainsFunc(domains, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

// Annotations returns the annotations that Trellis reads, up to MaxBytes, and the annotations with the whole keys at any length.
func Annotations(all map[string]string, whole ...string) map[string]string {
	out, _ := bounded(all, func(key string) bool { return read(key) && !slices.Contains(whole, key) })
	for _, key := range whole {
		if value, has := all[key]; has {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// Labels returns all labels if they are within MaxBytes, or else those that Trellis reads and the shortest of the others.
func Labels(all map[string]string) map[string]string {
	if size(all) <= MaxBytes {
		return all
	}
	out, _ := bounded(all, func(string) bool { return true })
	return out
}

// Object is a cache transform. It removes managed fields and the last applied configuration, and limits the annotations: it marks an object
// with more annotations by AnnotationLeftOut.
func Object(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	kept, all := bounded(o.GetAnnotations(), func(key string) bool { return key != corev1.LastAppliedConfigAnnotation })
	if !all {
		kept[AnnotationLeftOut] = "annotations"
	}
	o.SetAnnotations(kept)
	return o, nil
}

// Owned is a cache transform for objects of which only the owning pods are read.
func Owned(obj any) (any, error) {
	o, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return Object(obj)
	}
	var owners []metav1.OwnerReference
	for _, owner := range o.OwnerReferences {
		if owner.Kind == "Pod" && owner.APIVersion == corev1.SchemeGroupVersion.String() && len(owners) < MaxOwners {
			owners = append(owners, owner)
		}
	}
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
		DeletionTimestamp: o.DeletionTimestamp, OwnerReferences: owners,
	}}, nil
}

// LeftOut reports whether metadata of a cached object was stripped that could be compared.
func LeftOut(o metav1.Object) bool { return o.GetAnnotations()[AnnotationLeftOut] != "" }

// bounded returns the needed entries up to MaxBytes: first those that Trellis reads, then the shortest. all reports whether none is left
// out.
func bounded(of map[string]string, needed func(key string) bool) (out map[string]string, all bool) {
	var keys []string
	for key := range of {
		if needed(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, true
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(-cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a)+len(of[a]), len(b)+len(of[b])), strings.Compare(a, b))
	})
	out = map[string]string{}
	for n := 0; len(keys) > 0; keys = keys[1:] {
		if n += len(keys[0]) + len(of[keys[0]]); n > MaxBytes {
			return out, false
		}
		out[keys[0]] = of[keys[0]]
	}
	return out, true
}

func rank(key string) int {
	if read(key) {
		return 1
	}
	return 0
}

func size(of map[string]string) (n int) {
	for key, value := range of {
		n += len(key) + len(value)
	}
	return n
}
