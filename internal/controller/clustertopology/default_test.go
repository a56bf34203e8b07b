// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// TestDefaults: each default topology reports whether it counts, and which others do.
func TestDefaults(t *testing.T) {
	var all []grovev1alpha1.ClusterTopology
	for i, one := range []struct{ name, pool string }{{"old", "h"}, {"new", "h"}, {"gb", "gb"}, {"other", ""}} {
		ct := grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: one.name, CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))}}
		ct.Spec.NodeSelector = map[string]string{"pool": one.pool}
		if one.name != "other" {
			ct.Annotations = map[string]string{constraint.AnnotationDefault: "true"}
		}
		all = append(all, ct)
	}
	tests := map[string]struct {
		status          metav1.ConditionStatus
		reason, message string
	}{
		"old": {metav1.ConditionTrue, grovev1alpha1.ReasonSeveralDefaults, "with the same nodeSelector: new"},
		"new": {metav1.ConditionFalse, grovev1alpha1.ReasonSeveralDefaults, "old counts because it is older and has the same nodeSelector"},
		"gb":  {metav1.ConditionTrue, grovev1alpha1.ReasonDefault, "other defaults, for other nodes: old"},
	}
	for i := range all {
		test, is := tests[all[i].Name]
		c := isDefault(&all[i], constraint.Defaults(all))
		switch {
		case !is && c != nil:
			t.Errorf("%s: %v", all[i].Name, c)
		case is && (c == nil || c.Status != test.status || c.Reason != test.reason || !strings.Contains(c.Message, test.message)):
			t.Errorf("%s: %v", all[i].Name, c)
		}
	}
	if c := isDefault(&all[2], constraint.Defaults(all[2:])); c == nil || strings.Contains(c.Message, "other") || c.Reason != grovev1alpha1.ReasonDefault {
		t.Errorf("alone: %v", c)
	}
}
