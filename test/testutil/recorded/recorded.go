// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recorded compares a GraphPlacement with the pods of its deployment.
package recorded

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Check returns the differences between the record and the pods of a settled deployment; nil if they agree. A nil placement means that no
// pod of the deployment has a place from Trellis.
func Check(dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup, pods []*corev1.Pod,
	placement *trellisv1alpha1.GraphPlacement) error {
	record := &assignment.Record{}
	if placement != nil {
		if placement.Spec.DeploymentUID != string(dgd.UID) {
			return fmt.Errorf("it is that of deployment %s, want %s", placement.Spec.DeploymentUID, dgd.UID)
		}
		record = assignment.Decode(&placement.Spec)
	}
	shown := gang.Shown(gang.Observation{DGD: dgd, Groups: groups, Pods: pods})
	var problems []error
	for _, key := range slices.SortedFunc(maps.Keys(shown), gang.Key.Compare) {
		if problem := differs(record, key, shown[key]); problem != "" {
			problems = append(problems, fmt.Errorf("%s-%d %s", key.Component, key.Ordinal, problem))
		}
	}
	for key := range record.Bound {
		if _, exists := shown[key]; !exists {
			problems = append(problems, fmt.Errorf("%s-%d is recorded as bound, and has no pod", key.Component, key.Ordinal))
		}
	}
	for name, g := range record.Gangs {
		for key := range g.Places {
			if _, exists := shown[key]; !exists {
				problems = append(problems, fmt.Errorf("%s-%d is recorded in gang %s, and has no pod", key.Component, key.Ordinal, name))
			}
		}
	}
	return errors.Join(problems...)
}

func differs(record *assignment.Record, key gang.Key, one assignment.Shown) string {
	of := record.GangOf(key)
	bound, isBound := record.Bound[key]
	switch one.State {
	case assignment.Waits:
		if of != "" || isBound {
			return fmt.Sprintf("waits, and is recorded in gang %q, bound %t", of, isBound)
		}
	case assignment.AllBound:
		if !isBound {
			return fmt.Sprintf("is bound, and is recorded in gang %q", of)
		}
		if !bound.Domain.Equal(one.Domain) {
			return fmt.Sprintf("is in %s, and is recorded in %s", one.Domain, bound.Domain)
		}
	case assignment.Released:
		if of != one.Gang {
			return fmt.Sprintf("is of gang %s, and is recorded in gang %q", one.Gang, of)
		}
		if p := record.Gangs[of].Places[key]; !p.Domain.Equal(one.Domain) {
			return fmt.Sprintf("is in %s, and is recorded in %s", one.Domain, p.Domain)
		}
	}
	return ""
}
