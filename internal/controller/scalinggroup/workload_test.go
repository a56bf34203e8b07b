// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// The provider's counts go through an update, a restart and another service's restart; each line is the group's status after a step.
func TestWorkloadStatus(t *testing.T) {
	sg := group(2, 1)
	sg.Spec.Revision = "r1"
	serving := provider.Counts{Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2, Current: true, RolledOut: true}
	var log []string
	step := func(what string, counts provider.Counts) {
		sg.Status = workloadStatus(sg, counts)
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
		log = append(log, fmt.Sprintf("%s: updated %d, ready %d, %s %q, of revision %s, restart %q", what, sg.Status.UpdatedReplicas, sg.Status.ReadyReplicas, c.Status, c.Message,
			sg.Status.Revision, sg.Status.Restart))
	}
	step("nothing is there yet", provider.Counts{})
	step("it serves", serving)

	sg.Spec.Revision = "r2"
	step("another revision, which the provider has not looked at", provider.Counts{Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2})
	step("it has", provider.Counts{Replicas: 2, Updated: 1, Scheduled: 2, Ready: 1, Current: true})
	step("the update is over", serving)

	sg.Spec.Restart = &trellisv1alpha1.Restart{ID: "one"}
	step("a restart, which the provider has not looked at", provider.Counts{Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2})
	step("all is of the new template, but not all serves", provider.Counts{Replicas: 2, Updated: 2, Scheduled: 2, Ready: 1, Current: true})
	step("the restart is over", serving)
	step("another service's restart begins", provider.Counts{Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2})
	step("a replica is lost", provider.Counts{Replicas: 2, Updated: 1, Scheduled: 1, Ready: 1, Current: true})

	const over, way = `True "no replica is of an older revision"`, `False "%d of 2 replicas are of the current revision, %d serve in all"`
	want := []string{
		"nothing is there yet: updated 0, ready 0, " + over + `, of revision r1, restart ""`,
		"it serves: updated 2, ready 2, " + over + `, of revision r1, restart ""`,
		"another revision, which the provider has not looked at: updated 0, ready 2, " + fmt.Sprintf(way, 0, 2) + `, of revision r1, restart ""`,
		"it has: updated 1, ready 1, " + fmt.Sprintf(way, 1, 1) + `, of revision r1, restart ""`,
		"the update is over: updated 2, ready 2, " + over + `, of revision r2, restart ""`,
		"a restart, which the provider has not looked at: updated 0, ready 2, " + fmt.Sprintf(way, 0, 2) + `, of revision r2, restart ""`,
		"all is of the new template, but not all serves: updated 2, ready 1, " + fmt.Sprintf(way, 2, 1) + `, of revision r2, restart ""`,
		"the restart is over: updated 2, ready 2, " + over + `, of revision r2, restart "one"`,
		"another service's restart begins: updated 2, ready 2, " + over + `, of revision r2, restart "one"`,
		"a replica is lost: updated 1, ready 1, " + over + `, of revision r2, restart "one"`,
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
