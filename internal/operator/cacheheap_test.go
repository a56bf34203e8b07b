// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/strip"
)

const (
	// writtenBytes is about what the API server takes as the annotations of one object.
	writtenBytes = 200 << 10
	// keptBytes is the most that a cache may keep of an object of a tenant that has nothing of use, maps and pointers included.
	keptBytes = 48 << 10
	// objects of each kind that are held at the same time.
	heldObjects = 16
)

// metadata of a tenant's object, as large as the API server takes it.
func large(i int) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: "team", Name: fmt.Sprint("o-", i), Labels: map[string]string{},
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: filler(writtenBytes)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:a":"` + filler(writtenBytes) + `"}`)}},
	}
	for n := range 20 {
		m.Annotations[fmt.Sprint("example.com/", n)] = filler(writtenBytes / 20)
		m.Annotations[fmt.Sprint("trellis.dev/", n)] = filler(writtenBytes / 20)
	}
	return m
}

// withLabels has many labels, too, where rules about pods read them.
func withLabels(m metav1.ObjectMeta) metav1.ObjectMeta {
	for n := range writtenBytes / 60 {
		m.Labels[fmt.Sprint("example.com/label-", n)] = filler(40)
	}
	return m
}

func labelled(m metav1.ObjectMeta, key, value string) metav1.ObjectMeta {
	m.Labels[key] = value
	return m
}

func filler(n int) string { return strings.Repeat("x", n) }

// ofTenants are objects that tenants write, of each kind that the operator caches and that has no bound in its schema. What they contain
// beyond their metadata serves no purpose of Trellis.
func ofTenants() map[string]func(i int) client.Object {
	ours := func(i int) metav1.ObjectMeta { return labelled(large(i), render.LabelManagedBy, render.ManagedBy) }
	containers := func() []corev1.Container {
		return []corev1.Container{{Name: "main", Args: []string{filler(writtenBytes)}, Env: []corev1.EnvVar{{Name: "A", Value: filler(writtenBytes)}}}}
	}
	config := []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "d", Parameters: k8sruntime.RawExtension{Raw: []byte(`{"a":"` + filler(writtenBytes) + `"}`)}}}}}
	return map[string]func(i int) client.Object{
		"pods of others": func(i int) client.Object {
			return &corev1.Pod{ObjectMeta: withLabels(large(i)), Spec: corev1.PodSpec{Containers: containers()}}
		},
		"pods with the label of ours": func(i int) client.Object {
			return &corev1.Pod{ObjectMeta: labelled(withLabels(large(i)), render.LabelScalingGroup, "g"), Spec: corev1.PodSpec{Containers: containers()}}
		},
		"pods with many owners": func(i int) client.Object {
			return &corev1.Pod{ObjectMeta: owned(labelled(large(i), render.LabelScalingGroup, "g")), Spec: corev1.PodSpec{Containers: containers()}}
		},
		"deployments": func(i int) client.Object { return &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: large(i)} },
		"scaling adapters": func(i int) client.Object {
			return &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: large(i)}
		},
		"scaling groups": func(i int) client.Object { return &trellisv1alpha1.ScalingGroup{ObjectMeta: large(i)} },
		"what workers publish": func(i int) client.Object {
			return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "nvidia.com/v1alpha1", Kind: "DynamoWorkerMetadata"}, ObjectMeta: owned(withLabels(large(i)))}
		},
		"Services": func(i int) client.Object {
			return &corev1.Service{ObjectMeta: withLabels(large(i)), Spec: corev1.ServiceSpec{ExternalName: filler(writtenBytes)}}
		},
		"Services with the label of ours": func(i int) client.Object {
			return &corev1.Service{ObjectMeta: labelled(large(i), render.LabelGraph, "g"), Spec: corev1.ServiceSpec{ExternalName: filler(writtenBytes)}}
		},
		"ConfigMaps": func(i int) client.Object {
			return &corev1.ConfigMap{ObjectMeta: ours(i), Data: map[string]string{"a": filler(writtenBytes)}, BinaryData: map[string][]byte{"b": []byte(filler(writtenBytes))}}
		},
		"ServiceAccounts": func(i int) client.Object {
			return &corev1.ServiceAccount{ObjectMeta: ours(i), ImagePullSecrets: []corev1.LocalObjectReference{{Name: filler(writtenBytes)}}}
		},
		"Roles": func(i int) client.Object {
			return &rbacv1.Role{ObjectMeta: ours(i), Rules: []rbacv1.PolicyRule{{Resources: []string{filler(writtenBytes)}}}}
		},
		"Ingresses": func(i int) client.Object {
			return &networkingv1.Ingress{ObjectMeta: ours(i), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: filler(writtenBytes)}}}}
		},
		"volume claims": func(i int) client.Object {
			return &corev1.PersistentVolumeClaim{ObjectMeta: owned(withLabels(large(i)))}
		},
		"the metadata of volume claims": func(i int) client.Object {
			return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: withLabels(large(i))}
		},
		"ResourceClaims": func(i int) client.Object {
			return &resourcev1.ResourceClaim{ObjectMeta: owned(withLabels(large(i))), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Config: config}}}
		},
		"ResourceClaimTemplates": func(i int) client.Object {
			return &resourcev1.ResourceClaimTemplate{ObjectMeta: owned(withLabels(large(i))), Spec: resourcev1.ResourceClaimTemplateSpec{
				ObjectMeta: withLabels(large(i)), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Config: config}}}}
		},
		"namespaces":      func(i int) client.Object { return &corev1.Namespace{ObjectMeta: withLabels(large(i))} },
		"resource quotas": func(i int) client.Object { return &corev1.ResourceQuota{ObjectMeta: large(i)} },
		"limit ranges":    func(i int) client.Object { return &corev1.LimitRange{ObjectMeta: large(i)} },
	}
}

// owned has as many owners as fit a request.
func owned(m metav1.ObjectMeta) metav1.ObjectMeta {
	for n := range writtenBytes / 100 {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("pod-", n), UID: "3c9f1a52-6a0a-4c1f-9d3e-0b6c8a7d2e11"})
	}
	return m
}

// Of each object that a tenant fills with as much as the API server takes, caches keep a small part. It is the heap that is measured, after
// a collection, and in a process with as little memory as would not hold the objects whole.
func TestCachesKeepLittleOfAnObject(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(liveHeap()) + heldObjects*writtenBytes/2))
	for name, object := range ofTenants() {
		transform := transformOf(t, object(0))
		kept := make([]any, heldObjects)
		before := liveHeap()
		for i := range kept {
			o, err := transform(decoded(t, object(i)))
			if err != nil {
				t.Fatal(err)
			}
			kept[i] = o
		}
		if each := (int64(liveHeap()) - int64(before)) / heldObjects; each > keptBytes {
			t.Errorf("%s: %d KiB are kept of an object, want at most %d", name, each>>10, keptBytes>>10)
		}
		runtime.KeepAlive(kept)
	}
}

// What pods share in memory outlives them: of pods that come and go with ever other large specs, little stays.
func TestWhatPodsShareIsBounded(t *testing.T) {
	transform := transformOf(t, &corev1.Pod{})
	before := liveHeap()
	for i := range heldObjects {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{}}}
		for n := range 1000 {
			text := fmt.Sprint("pod-", i, "-", n, filler(40))
			pod.Labels["example.com/"+text] = text
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: text, Value: text})
		}
		term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		for _, group := range []string{"", "g"} {
			one := pod.DeepCopy()
			if group != "" {
				one.Labels[render.LabelScalingGroup] = group
			}
			if _, err := transform(decoded(t, one)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if each := (int64(liveHeap()) - int64(before)) / heldObjects; each > keptBytes {
		t.Errorf("%d KiB are kept of a pod that is gone, want at most %d", each>>10, keptBytes>>10)
	}
}

// What is left out of a cached object that a deployment may have brought is marked, so that it is read from the API server.
func TestWhatIsLeftOutIsMarked(t *testing.T) {
	small := metav1.ObjectMeta{Name: "a", Labels: map[string]string{render.LabelGraph: "g"}, Annotations: map[string]string{"example.com/a": "a"}}
	for name, c := range map[string]struct {
		object *corev1.Service
		left   bool
	}{
		"ours":                  {&corev1.Service{ObjectMeta: small}, false},
		"ours, made large":      {&corev1.Service{ObjectMeta: small, Spec: corev1.ServiceSpec{ExternalName: filler(writtenBytes)}}, true},
		"ours, with many notes": {&corev1.Service{ObjectMeta: labelled(large(0), render.LabelGraph, "g")}, true},
		"another's":             {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, true},
	} {
		out, err := transformOf(t, c.object)(c.object.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if got := strip.LeftOut(out.(*corev1.Service)); got != c.left {
			t.Errorf("%s: left out %v, want %v", name, got, c.left)
		}
	}
}

// decoded is an object as a client reads it: no part of it is shared with another.
func decoded(t *testing.T, o client.Object) client.Object {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// transformOf is the transform of the manager's cache for an object's kind.
func transformOf(t *testing.T, o client.Object) toolscache.TransformFunc {
	t.Helper()
	options, kind := cacheOptions(nil), kindOf(t, o)
	for object, by := range options.ByObject {
		if kindOf(t, object) == kind && by.Transform != nil {
			return by.Transform
		}
	}
	return options.DefaultTransform
}

func kindOf(t *testing.T, o client.Object) schema.GroupVersionKind {
	t.Helper()
	kind, err := apiutil.GVKForObject(o, NewScheme())
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// liveHeap is what is in use after a collection, in bytes.
func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalized
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
