// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/trellis-k8s/trellis/internal/volumes"
)

// What is not known of claims is named, where objects may exist that the store does not have.
func TestUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		objects  []any
		complete bool
		claims   []string
		want     []string
	}{
		"no claim":         {},
		"a claim":          {claims: []string{"models"}, want: []string{"claim models"}},
		"each once":        {claims: []string{"models", "data", "models"}, want: []string{"claim data", "claim models"}},
		"its volume":       {objects: []any{claim("models", "", boundTo("v"))}, claims: []string{"models"}, want: []string{"volume v"}},
		"its class":        {objects: []any{claim("models", "fast")}, claims: []string{"models"}, want: []string{"storage class fast"}},
		"nothing":          {objects: []any{claim("models", "fast"), class("fast", driver, true)}, claims: []string{"models"}},
		"all there is":     {complete: true, claims: []string{"models"}},
		"a claim that has": {objects: []any{claim("models", "gone", boundTo("v")), pv("v", "gone", "")}, claims: []string{"models"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := volumes.NewStore()
			s.Partial = !tc.complete
			for _, o := range tc.objects {
				s.Set(o)
			}
			if diff := cmp.Diff(tc.want, s.Unknown(pods(1, "1", tc.claims...)[0]), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
