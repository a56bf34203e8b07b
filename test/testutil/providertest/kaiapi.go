// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
)

// KAIRefuses returns why the admission webhook of KAI Scheduler v0.17.0 refuses a PodGroup; nil if it accepts it. The webhook only warns of
// a minimum above the number of children.
func KAIRefuses(object *unstructured.Unstructured) error {
	pg := &kai.PodGroup{}
	if err := external.Read(object, pg); err != nil {
		return err
	}
	if pg.Spec.MinMember != nil && pg.Spec.MinSubGroup != nil {
		return errors.New("minMember and minSubGroup are mutually exclusive")
	}
	parents, children := map[string]string{}, map[string]int{}
	for _, s := range pg.Spec.SubGroups {
		if _, has := parents[s.Name]; has {
			return fmt.Errorf("duplicate subgroup name %s", s.Name)
		}
		parents[s.Name] = s.Parent
		children[s.Parent]++
	}
	var errs []error
	for _, s := range pg.Spec.SubGroups {
		if err := checkParents(s, parents); err != nil {
			return err
		}
		switch leaf := children[s.Name] == 0; {
		case s.MinMember != nil && s.MinSubGroup != nil:
			errs = append(errs, fmt.Errorf("subgroup %q: minMember and minSubGroup are mutually exclusive", s.Name))
		case leaf && s.MinMember == nil:
			errs = append(errs, fmt.Errorf("subgroup %s: minMember is required", s.Name))
		case !leaf && s.MinMember != nil:
			errs = append(errs, fmt.Errorf("subgroup %q: minMember cannot be set on a mid-level SubGroup", s.Name))
		}
	}
	return errors.Join(errs...)
}

// checkParents returns an error for a missing parent, and for a cycle.
func checkParents(s kai.SubGroup, parents map[string]string) error {
	if _, has := parents[s.Parent]; s.Parent != "" && !has {
		return fmt.Errorf("parent %s of %s was not found", s.Parent, s.Name)
	}
	steps := 0
	for at := s.Name; at != ""; at = parents[at] {
		if steps++; steps > len(parents) {
			return errors.New("cycle detected in subgroups")
		}
	}
	return nil
}
