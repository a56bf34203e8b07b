// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package strip limits the metadata of objects in caches. Tenants write this metadata, and the API server allows 256 KiB of annotations on
// each object, and labels and owners up to the size of a request, which is 1.5 MiB.
//
//	a Service with kubectl.kubernetes.io/last-applied-configuration, 200 KiB, and trellis.dev/applied-metadata, 16 bytes
//	kept: trellis.dev/applied-metadata
//
// Trellis never writes a complete cached object. A patch is the difference between two cached objects, so stripped metadata remains in
// the cluster. Owners and finalizers are lists, which a patch replaces completely, so the cache keeps them where a patch may contain them.
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
	// MaxBytes limits the annotations, and separately the labels, that the cache keeps for one object, in bytes of keys and values.
	MaxBytes = 8 << 10
	// MaxOwners limits the owner references that the cache keeps for objects whose owner references are only read.
	MaxOwners = 4
	// AnnotationLeftOut marks cached objects without some metadata or content that Trellis may compare. It exists only in caches.
	AnnotationLeftOut = "trellis.dev/left-out-of-cache"
)

// domains are the domains of the annotations that Trellis reads.
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

// Annotations returns the annotations that Trellis reads, up to MaxBytes. It also returns, at any length, the annotations with the given
// keys (whole).
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

// Labels returns all labels if they are within MaxBytes. Otherwise it returns the labels that Trellis reads, and the shortest other labels,
// up to MaxBytes.
func Labels(all map[string]string) map[string]string {
	if size(all) <= MaxBytes {
		return all
	}
	out, _ := bounded(all, func(string) bool { return true })
	return out
}

// Object is a cache transform. It removes managed fields and the last applied configuration, and limits the annotations to MaxBytes. It
// marks an object whose annotations exceed this limit with AnnotationLeftOut.
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

// Owned is a cache transform for objects of which Trellis reads only the references to owning pods.
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

// LeftOut reports whether a cached object lacks metadata or content that Trellis may compare.
func LeftOut(o metav1.Object) bool { return o.GetAnnotations()[AnnotationLeftOut] != "" }

// bounded returns the needed entries up to MaxBytes: first the entries that Trellis reads, then the shortest other entries. all reports
// whether the result contains all needed entries.
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
