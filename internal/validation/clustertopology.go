// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// maxLevels is the maximum number of levels in a hierarchy.
const maxLevels = 16

// topologyChecks are the rules for a ClusterTopology.
var topologyChecks = []struct {
	name string
	run  func(*grovev1alpha1.ClusterTopology) field.ErrorList
}{
	{"number of levels", levelCount},
	{"levels", levels},
	{"node selector", nodeSelector},
	{"scheduler references", schedulerReferences},
}

// Topology returns all errors in a ClusterTopology.
func Topology(ct *grovev1alpha1.ClusterTopology) field.ErrorList {
	if ct == nil {
		return nil
	}
	var errs field.ErrorList
	for _, check := range topologyChecks {
		errs = append(errs, check.run(ct)...)
	}
	return errs
}

// TopologyUpdate returns the errors in an update of a ClusterTopology, except errors that the old object already had. It allows changes of
// levels that deployments use, because administrators must be able to describe a cluster that has changed.
func TopologyUpdate(updated, old *grovev1alpha1.ClusterTopology) field.ErrorList {
	if updated == nil || old == nil || updated.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(updated.Spec, old.Spec) {
		return nil
	}
	return ratchet(Topology(updated), Topology(old))
}

func levelCount(ct *grovev1alpha1.ClusterTopology) field.ErrorList {
	path := specPath.Child("levels")
	switch n := len(ct.Spec.Levels); {
	case n == 0:
		return one(field.Required(path, "spec.levels must have at least one level, the broadest first"))
	case n > maxLevels:
		return one(field.TooMany(path, n, maxLevels))
	}
	return nil
}

func levels(ct *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	domains, keys := map[string]int{}, map[string]int{}
	for i, level := range ct.Spec.Levels {
		path := specPath.Child("levels").Index(i)
		switch first, taken := domains[level.Domain]; {
		case level.Domain == "":
			errs = append(errs, field.Required(path.Child("domain"), "name the level, e.g. rack"))
		case !validDomain(level.Domain):
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("domain"), level.Domain, notADomain("domain", level.Domain)))
		case taken:
			errs = append(errs, badValue(field.ErrorTypeDuplicate, path.Child("domain"), level.Domain,
				fmt.Sprintf("domain must be unique across all levels; levels[%d] has it already", first)))
		default:
			domains[level.Domain] = i
		}
		switch first, taken := keys[level.Key]; {
		case level.Key == "":
			errs = append(errs, field.Required(path.Child("key"), "name the node label, e.g. topology.kubernetes.io/zone"))
		case len(validation.IsQualifiedName(level.Key)) > 0:
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("key"), level.Key,
				"not a node label key: "+strings.Join(validation.IsQualifiedName(level.Key), "; ")))
		case taken:
			errs = append(errs, badValue(field.ErrorTypeDuplicate, path.Child("key"), level.Key,
				fmt.Sprintf("key must be unique across all levels; levels[%d] has it already", first)))
		default:
			keys[level.Key] = i
		}
	}
	return errs
}

func nodeSelector(ct *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(ct.Spec.NodeSelector)) {
		path, value := specPath.Child("nodeSelector").Key(short(key)), ct.Spec.NodeSelector[key]
		for _, problem := range validation.IsQualifiedName(key) {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path, key, problem))
		}
		for _, problem := range validation.IsValidLabelValue(value) {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path, value, problem))
		}
	}
	return errs
}

func schedulerReferences(ct *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, ref := range ct.Spec.SchedulerTopologyReferences {
		path := specPath.Child("schedulerTopologyReferences").Index(i)
		switch {
		case ref.SchedulerName == "":
			errs = append(errs, field.Required(path.Child("schedulerName"), "name the scheduler, e.g. kai-scheduler"))
		case seen[ref.SchedulerName]:
			errs = append(errs, badValue(field.ErrorTypeDuplicate, path.Child("schedulerName"), ref.SchedulerName, "name each scheduler once"))
		}
		seen[ref.SchedulerName] = true
		if ref.TopologyReference == "" {
			errs = append(errs, field.Required(path.Child("topologyReference"), "name that scheduler's topology object"))
		}
	}
	return errs
}
