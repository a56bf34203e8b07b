// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// A graph is told when what is asked for it changes, and not when only that of others does. Its result is not another one for that.
func TestAskedCapacity(t *testing.T) {
	var told []string
	changes := 0
	r := NewResults(func(name types.NamespacedName) { told = append(told, name.Name) })
	r.OnChange(func() { changes++ })
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	r.set(a, gang.Result{UID: "u"})
	for _, step := range []struct {
		asked map[types.NamespacedName]string
		told  string
		a     string
	}{
		{map[types.NamespacedName]string{a: "2 pods"}, "a", "2 pods"},
		{map[types.NamespacedName]string{a: "2 pods", b: "1 pod"}, "b", "2 pods"},
		{map[types.NamespacedName]string{a: "3 pods", b: "1 pod"}, "a", "3 pods"},
		{nil, "a b", ""},
	} {
		told = nil
		r.Ask(step.asked)
		slices.Sort(told)
		if diff := cmp.Diff(step.told, strings.Join(told, " ")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", step.asked, diff)
		}
		if result, ok := r.Get(a, "u"); !ok || result.Asked != step.a {
			t.Errorf("%v: it is %q, %v", step.asked, result.Asked, ok)
		}
	}
	if changes != 1 {
		t.Errorf("%d results have changed, want the first one only", changes)
	}
}
