// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

var roleNames = []string{nvidiav1beta1.RoleLeader, nvidiav1beta1.RoleWorker}

// roles checks an explicit list of roles: it must contain both roles of a multinode replica, with the counts that follow from nodeCount.
func roles(s component) field.ErrorList {
	path := s.path.Child("roles")
	switch {
	case s.Roles == nil:
		return nil
	case !s.multinode():
		return one(field.Forbidden(path, "only a multinode %s has roles; remove the list", field.WordComponent))
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range s.Roles {
		r := &s.Roles[i]
		errs = append(errs, role(s, r, path.Key(short(r.Name)), seen.Has(r.Name))...)
		seen.Insert(r.Name)
	}
	for _, name := range roleNames {
		if !seen.Has(name) {
			errs = append(errs, field.Required(path, fmt.Sprintf("must contain the %q role", name)))
		}
	}
	return errs
}

func role(s component, r *nvidiav1beta1.ComponentRole, path *field.Path, again bool) field.ErrorList {
	want := s.PodsOfRole(r.Name)
	switch {
	case want == 0:
		return one(field.NotSupported(path.Child("name"), short(r.Name), roleNames))
	case again:
		return one(badValue(field.ErrorTypeDuplicate, path.Child("name"), r.Name, "name each role once"))
	}
	var errs field.ErrorList
	if r.Replicas != nil && *r.Replicas != want {
		errs = append(errs, field.Invalid(path.Child("replicas"), *r.Replicas, fmt.Sprintf(
			"must equal %d for multinode role %q; change nodeCount, or leave replicas out", want, r.Name)))
	}
	if r.PodTemplate != nil {
		errs = append(errs, field.Forbidden(path.Child("podTemplate"), "is not supported for this component role"))
	}
	return errs
}

// rolesKept allows adding or removing the list of roles only if the list has the same effect as no list: it sets no providerOverride.
func rolesKept(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		switch {
		case (now.Roles == nil) == (before.Roles == nil) || len(roles(now)) > 0:
		case !before.ImplicitRoles():
			errs = append(errs, field.Forbidden(now.path.Child("roles"),
				"the list cannot be removed while a role has a providerOverride; remove that first, then the list in another update"))
		case !now.ImplicitRoles():
			errs = append(errs, field.Forbidden(now.path.Child("roles"),
				"a new list must not contain a providerOverride; add leader and worker first, then the providerOverride in another update"))
		}
	})
	return errs
}

// formerRoles refuses multinode.leader and multinode.worker, which the field roles has replaced. It does not apply to objects that were
// stored before this rule existed.
func formerRoles(s component) field.ErrorList {
	var errs field.ErrorList
	for _, name := range roleNames {
		if s.hasFormerRole(name) {
			errs = append(errs, field.Forbidden(s.path.Child("multinode", name),
				"was replaced by roles before Dynamo 1.5; write its providerOverride into roles["+name+"]"))
		}
	}
	return errs
}

// hasFormerRole reports whether the component has multinode.leader or multinode.worker.
func (s component) hasFormerRole(name string) bool {
	leader := name == nvidiav1beta1.RoleLeader
	if m := s.alpha.Multinode; m != nil && (leader && m.Leader != nil || !leader && m.Worker != nil) {
		return true
	}
	m := s.Multinode
	return m != nil && (leader && m.Leader != nil || !leader && m.Worker != nil)
}

// typeKept refuses to change a component's type once it is set.
func typeKept(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		if before.Type != "" && now.Type != before.Type {
			errs = append(errs, field.Forbidden(now.path.Child("type"),
				"%s is immutable after it is set; put %s back, or delete and recreate the DynamoGraphDeployment", field.WordType, before.Type))
		}
	})
	return errs
}

// NodeCountWarnings warns about a change of nodeCount, because it replaces every replica.
func NodeCountWarnings(updated, old *nvidiav1beta1.DynamoGraphDeployment) []field.Text {
	var paths []*field.Path
	forComponentsInBoth(updated, old, func(now, before component) {
		nodes, multinode := now.PodsPerReplica()
		if was, _ := before.PodsPerReplica(); multinode && before.multinode() && nodes != was {
			paths = append(paths, now.path.Child("multinode", "nodeCount"))
		}
	})
	return byKind(paths, func(kind *field.Path) field.Text {
		return field.Say("%s changes, so every replica is replaced; the Dynamo operator after 1.5 refuses such a change", kind)
	})
}
