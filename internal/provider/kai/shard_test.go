// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/provider/kai"
)

// A scheduler that evicts gangs which lack a pod is named, with its time and the fix.
func TestEvicts(t *testing.T) {
	shard := func(name, period string) kai.SchedulingShard {
		out := kai.SchedulingShard{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kai.SchedulingShardSpec{Args: map[string]string{"v": "4"}}}
		if period != "" {
			out.Spec.Args["default-staleness-grace-period"] = period
		}
		return out
	}
	for name, tc := range map[string]struct {
		shards []kai.SchedulingShard
		want   string
	}{
		"none":               {nil, ""},
		"never":              {[]kai.SchedulingShard{shard("default", "-1s")}, ""},
		"never, as Dynamo":   {[]kai.SchedulingShard{shard("default", "-1")}, ""},
		"by KAI's default":   {[]kai.SchedulingShard{shard("default", "")}, `for 60s; set spec.args["default-staleness-grace-period"] of the SchedulingShard default to "-1s"`},
		"after a time":       {[]kai.SchedulingShard{shard("default", "5m")}, "for 5m;"},
		"one of two":         {[]kai.SchedulingShard{shard("second", ""), shard("default", "-1s")}, "SchedulingShard second "},
		"the first by name":  {[]kai.SchedulingShard{shard("second", ""), shard("default", "1s")}, "SchedulingShard default "},
		"what is not a time": {[]kai.SchedulingShard{shard("default", "soon")}, "for soon;"},
	} {
		if got := kai.Evicts(tc.shards); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
