// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Edit is a change of a scaling group's spec by a client other than Trellis.
type Edit struct {
	// Fields are the changed fields of the spec, sorted.
	Fields []string
	// Managers are the field managers that wrote Fields, sorted.
	Managers []string
}

// EditOf returns the changes that other clients have made to a scaling group's spec since Trellis last wrote it; nil for an unchanged spec.
// It compares owners in the managed fields, not values: a client that changes a value becomes its owner. The result therefore does not
// depend on the version of the operator. If Trellis owns no field of a scaling group, another client created the group, for example by
// restoring a backup. Trellis adopts such a group, and its fields are not an edit.
func EditOf(sg *trellisv1alpha1.ScalingGroup) *Edit {
	ours, theirs, last := fieldpath.NewSet(), map[string]*fieldpath.Set{}, lastWrite(sg)
	for i := range sg.ManagedFields {
		entry := &sg.ManagedFields[i]
		owned := ownedSpec(entry)
		switch {
		case owned.Empty() || entry.Subresource == "status":
		case entry.Time != nil && last != nil && entry.Time.Before(last): // adopted by a later write of Trellis
		case entry.Manager == FieldOwner:
			ours = ours.Union(owned)
		default:
			theirs[entry.Manager] = owned.Union(orEmpty(theirs[entry.Manager]))
		}
	}
	if ours.Empty() {
		return nil
	}
	edit := &Edit{}
	for manager, owned := range theirs {
		taken := owned.Difference(ours)
		if taken.Empty() {
			continue
		}
		edit.Managers = append(edit.Managers, manager)
		taken.Iterate(func(path fieldpath.Path) {
			if name := path[0].FieldName; name != nil && !slices.Contains(edit.Fields, *name) {
				edit.Fields = append(edit.Fields, *name)
			}
		})
	}
	if len(edit.Fields) == 0 {
		return nil
	}
	slices.Sort(edit.Fields)
	slices.Sort(edit.Managers)
	return edit
}

// lastWrite returns the time at which Trellis last wrote the spec; nil if the managed fields contain no time.
func lastWrite(sg *trellisv1alpha1.ScalingGroup) (last *metav1.Time) {
	for i := range sg.ManagedFields {
		entry := &sg.ManagedFields[i]
		if entry.Manager == FieldOwner && entry.Subresource != "status" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}

// Any reports whether the edit changed any of the fields; false for a nil Edit.
func (e *Edit) Any(fields ...string) bool {
	return e != nil && slices.ContainsFunc(fields, func(field string) bool { return slices.Contains(e.Fields, field) })
}

// ownedSpec returns the fields of the spec that an entry owns, as paths below the spec; no fields for an unreadable entry.
func ownedSpec(entry *metav1.ManagedFieldsEntry) *fieldpath.Set {
	all := fieldpath.NewSet()
	if entry.FieldsV1 == nil || all.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
		return fieldpath.NewSet()
	}
	return all.WithPrefix(fieldpath.PathElement{FieldName: ptr.To("spec")}).Leaves()
}

func orEmpty(s *fieldpath.Set) *fieldpath.Set {
	if s == nil {
		return fieldpath.NewSet()
	}
	return s
}

// StripGroup is the cache's transform function for scaling groups. It drops the managed fields to save memory. If another client has
// changed the group, StripGroup keeps the managed fields, because [EditOf] reads them.
func StripGroup(object any) (any, error) {
	if sg, ok := object.(*trellisv1alpha1.ScalingGroup); ok && EditOf(sg) == nil {
		sg.ManagedFields = nil
	}
	return object, nil
}
