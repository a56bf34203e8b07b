// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Patterns and maximum lengths of the fields of a KVTransferPolicy, as in its schema.
const (
	kvDomainPattern   = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	kvLabelKeyPattern = `^(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$`
	kvMaxDomain       = 63
	kvMaxTopologyName = 253
)

var (
	kvDomain   = regexp.MustCompile(kvDomainPattern)
	kvLabelKey = regexp.MustCompile(kvLabelKeyPattern)
)

// Problems returns the violations of the policy's schema, with paths within the policy. The callers have policies that no schema has
// validated: admission, since v1alpha1 keeps the policy as a free object, and the conversion, which drops values that the schema would
// refuse.
func (p *KVTransferPolicy) Problems() field.ErrorList {
	errs := p.selectorProblems()
	if len(p.Domain) > kvMaxDomain || !kvDomain.MatchString(p.Domain) {
		errs = append(errs, field.Invalid(field.NewPath("domain"), p.Domain, "name the level, e.g. rack; must match "+kvDomainPattern))
	}
	known := []KVTransferEnforcement{KVTransferPreferred, KVTransferRequired}
	preferred, weight := p.Enforcement == KVTransferPreferred, field.NewPath("preferredWeight")
	switch {
	case !preferred && p.Enforcement != KVTransferRequired && p.Enforcement != "":
		errs = append(errs, field.NotSupported(field.NewPath("enforcement"), p.Enforcement, known))
	case preferred && p.PreferredWeight == nil:
		errs = append(errs, field.Required(weight, "preferredWeight is required when enforcement is preferred; set it from 0 to 1"))
	case !preferred && p.PreferredWeight != nil:
		errs = append(errs, field.Forbidden(weight, "preferredWeight may only be set when enforcement is preferred; remove it, or set the "+
			"enforcement"))
	case preferred && (*p.PreferredWeight < 0 || *p.PreferredWeight > 1):
		errs = append(errs, field.Invalid(weight, *p.PreferredWeight, "must be from 0 to 1"))
	}
	return errs
}

// selectorProblems checks that the policy selects the domain of a worker in one way: by label key or by topology.
func (p *KVTransferPolicy) selectorProblems() field.ErrorList {
	var errs field.ErrorList
	if (p.LabelKey == "") == (p.ClusterTopologyName == "") {
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{},
			Detail: "exactly one of labelKey or clusterTopologyName is required; keep one"})
	}
	if p.LabelKey != "" {
		if why := validation.IsQualifiedName(p.LabelKey); len(why) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("labelKey"), p.LabelKey, "not a node label key: "+why[0]))
		} else if !kvLabelKey.MatchString(p.LabelKey) {
			errs = append(errs, field.Invalid(field.NewPath("labelKey"), p.LabelKey, "not a node label key: must match "+kvLabelKeyPattern))
		}
	}
	if len(p.ClusterTopologyName) > kvMaxTopologyName {
		errs = append(errs, field.TooLong(field.NewPath("clusterTopologyName"), p.ClusterTopologyName, kvMaxTopologyName))
	}
	return errs
}
