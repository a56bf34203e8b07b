// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Object is one object of a file.
type Object struct {
	client.Object
	Source Source
	// Version of the API in which the object is written. A deployment of any version is converted to v1beta1.
	Version string
}

// Skipped is an object of a kind that package files does not read.
type Skipped struct {
	Kind   schema.GroupVersionKind
	Name   string
	Source Source
}

// versions maps the supported versions of a kind to constructors.
type versions map[string]func() client.Object

// kinds are the kinds that package files decodes, by group and kind. An object of one of these kinds in an unsupported version is an error;
// an object of any other kind is skipped.
var kinds = map[schema.GroupKind]versions{
	{Kind: "Node"}: {"v1": func() client.Object { return &corev1.Node{} }},
	{Kind: "Pod"}:  {"v1": func() client.Object { return &corev1.Pod{} }},
	{Group: schedulingv1.GroupName, Kind: "PriorityClass"}: {"v1": func() client.Object { return &schedulingv1.PriorityClass{} }},
	{Kind: "Namespace"}:                                      {"v1": func() client.Object { return &corev1.Namespace{} }},
	{Kind: "PersistentVolumeClaim"}:                          {"v1": func() client.Object { return &corev1.PersistentVolumeClaim{} }},
	{Kind: "PersistentVolume"}:                               {"v1": func() client.Object { return &corev1.PersistentVolume{} }},
	{Group: storagev1.GroupName, Kind: "StorageClass"}:       {"v1": func() client.Object { return &storagev1.StorageClass{} }},
	{Group: storagev1.GroupName, Kind: "CSINode"}:            {"v1": func() client.Object { return &storagev1.CSINode{} }},
	{Group: storagev1.GroupName, Kind: "CSIDriver"}:          {"v1": func() client.Object { return &storagev1.CSIDriver{} }},
	{Group: storagev1.GroupName, Kind: "CSIStorageCapacity"}: {"v1": func() client.Object { return &storagev1.CSIStorageCapacity{} }},
	{Kind: "LimitRange"}:                                     {"v1": func() client.Object { return &corev1.LimitRange{} }},
	{Group: nodev1.GroupName, Kind: "RuntimeClass"}:          {"v1": func() client.Object { return &nodev1.RuntimeClass{} }},
	{Group: resourcev1.GroupName, Kind: "DeviceClass"}:       {"v1": func() client.Object { return &resourcev1.DeviceClass{} }},

	{Group: resourcev1.GroupName, Kind: "ResourceSlice"}:         {"v1": func() client.Object { return &resourcev1.ResourceSlice{} }},
	{Group: resourcev1.GroupName, Kind: "ResourceClaim"}:         {"v1": func() client.Object { return &resourcev1.ResourceClaim{} }},
	{Group: resourcev1.GroupName, Kind: "ResourceClaimTemplate"}: {"v1": func() client.Object { return &resourcev1.ResourceClaimTemplate{} }},
	{Group: resourcev1.GroupName, Kind: "DeviceTaintRule"}:       {"v1": func() client.Object { return &resourcev1.DeviceTaintRule{} }},
	{Group: grovev1alpha1.GroupVersion.Group, Kind: "ClusterTopology"}: {
		grovev1alpha1.GroupVersion.Version: func() client.Object { return &grovev1alpha1.ClusterTopology{} },
	},
	topologybinding.Kind.GroupKind(): {
		topologybinding.Kind.Version: func() client.Object { return &topologybinding.Binding{} },
	},
	{Group: nvidiav1beta1.GroupVersion.Group, Kind: "DynamoGraphDeployment"}: {
		nvidiav1beta1.GroupVersion.Version:  func() client.Object { return &nvidiav1beta1.DynamoGraphDeployment{} },
		nvidiav1alpha1.GroupVersion.Version: func() client.Object { return &nvidiav1alpha1.DynamoGraphDeployment{} },
	},
	{Group: nvlink.GroupVersion.Group, Kind: nvlink.Kind}: {
		nvlink.GroupVersion.Version: func() client.Object { return &nvlink.ComputeDomain{} },
	},
}

// contents are the objects and errors of one file.
type contents struct {
	objects []Object
	skipped []Skipped
	errs    []error
}

// parse reads all objects of a file.
func parse(file string, data []byte) contents {
	docs, errs := split(file, data)
	c := contents{errs: errs}
	for _, doc := range docs {
		c.add(Source{doc: doc}, doc.json, metav1.TypeMeta{})
	}
	return c
}

// add decodes one object, or the items of a list. kind is the default for an item without a kind.
func (c *contents) add(source Source, raw json.RawMessage, kind metav1.TypeMeta) {
	head := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}{}
	_ = json.Unmarshal(raw, &head) // mismatches are reported below
	if head.Kind == "" && head.APIVersion == "" {
		head.TypeMeta = kind
	}
	gvk := head.GroupVersionKind()
	if singular, isList := strings.CutSuffix(gvk.Kind, "List"); isList && gvk.Kind != "" {
		item := metav1.TypeMeta{}
		if singular != "" {
			item = metav1.TypeMeta{APIVersion: head.APIVersion, Kind: singular}
		}
		for i, raw := range head.Items {
			c.add(Source{doc: source.doc, item: fmt.Sprintf("items[%d]", i)}, raw, item)
		}
		return
	}
	known, wanted := kinds[gvk.GroupKind()]
	switch {
	case gvk.Kind == "" || gvk.Version == "":
		c.errs = append(c.errs, source.At("", "", "not a Kubernetes object: apiVersion and kind are missing"))
	case !wanted:
		c.skipped = append(c.skipped, Skipped{Kind: gvk, Name: head.Metadata.Name, Source: source})
	case known[gvk.Version] == nil:
		newest := slices.Max(slices.Collect(maps.Keys(known)))
		c.errs = append(c.errs, source.At(gvk.Kind+" "+head.Metadata.Name, "apiVersion",
			fmt.Sprintf("%s is not known; write it as %s", gvk.GroupVersion(), schema.GroupVersion{Group: gvk.Group, Version: newest})))
	default:
		c.addObject(source, raw, gvk, known[gvk.Version](), head.Metadata.Name)
	}
}

// addObject decodes an object of a known kind. It is an error if the object has no name.
func (c *contents) addObject(source Source, raw json.RawMessage, gvk schema.GroupVersionKind, into client.Object, name string) {
	object, errs := decode(source, raw, gvk.Kind+" "+name, into)
	if len(errs) == 0 && object.GetName() == "" {
		errs = append(errs, source.At(gvk.Kind, "metadata.name", "is required"))
	}
	c.errs = append(c.errs, errs...)
	if object == nil || object.GetName() == "" {
		return
	}
	if object.GetObjectKind().GroupVersionKind().Empty() {
		object.GetObjectKind().SetGroupVersionKind(gvk)
	}
	c.objects = append(c.objects, Object{object, source, gvk.Version})
}

// decode decodes an object strictly, sets the defaults of its kind, and converts a deployment to v1beta1. It returns nil if a field cannot
// be decoded.
func decode(source Source, raw json.RawMessage, name string, into client.Object) (client.Object, []error) {
	var errs []error
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, e := range strict {
		var field kjson.FieldError
		path, message := "", e.Error()
		if errors.As(e, &field) {
			path = field.FieldPath()
			message, _, _ = strings.Cut(message, " \"")
		}
		errs = append(errs, source.At(name, path, message))
	}
	if err != nil {
		var whole map[string]any
		_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &whole)
		path := culprit(whole, func() string { return failure(whole, into) })
		return nil, append(errs, source.At(name, path, strings.TrimPrefix(err.Error(), "json: ")))
	}
	switch o := into.(type) {
	case *corev1.Node:
		defaultNode(o)
	case *corev1.Pod:
		newpod.Defaults(o)
	case *resourcev1.ResourceClaim:
		defaultClaim(&o.Spec)
	case *resourcev1.ResourceClaimTemplate:
		defaultClaim(&o.Spec.Spec)
	case *nvidiav1alpha1.DynamoGraphDeployment, *nvidiav1beta1.DynamoGraphDeployment:
		dgd, err := defaultGraph(raw)
		if err != nil {
			return nil, append(errs, source.At(name, "", err.Error()))
		}
		return dgd, errs
	}
	return into, errs
}

// failure returns the error of decoding a value; "" for none.
func failure(value map[string]any, into client.Object) string {
	raw, err := json.Marshal(value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
