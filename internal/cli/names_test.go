// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestNatural(t *testing.T) {
	want := []string{"", "a", "a1", "a02", "a2", "a2b", "a10", "a10-2", "a10-10", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNotFoundStaysShort(t *testing.T) {
	err := NotFound("X", strings.Split(strings.Repeat("n,", 30)+"n", ","), "none")
	if !strings.HasSuffix(err.Error(), "n, 21 more") {
		t.Errorf("got %v", err)
	}
	if err := NotFound("X", nil, "none in this namespace"); err.Error() != "X not found; there are none in this namespace" {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"chat": "chat", "chta": "chat", "caht": "chat", "cat": "chat", "CHAT-2": "chat-2", "evaluation": "", "llama": "", "": "", "x": "", "my-l": "my-llm",
	} {
		if got := Nearest(word, []string{"chat", "chat-2", "my-llm"}); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	want := "DynamoGraphDeployment a/chta not found; did you mean chat? There are: chat, my-llm"
	if err := NotFound("DynamoGraphDeployment a/chta", []string{"my-llm", "chat"}, ""); err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestGraphNotFound(t *testing.T) {
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	all := []types.NamespacedName{key("a", "chat"), key("b", "eval"), key("c", "eval")}
	for asked, want := range map[types.NamespacedName]string{
		key("a", "eval"): "DynamoGraphDeployment a/eval not found; there is one in b, c: give the namespace with -n",
		key("a", "caht"): "DynamoGraphDeployment a/caht not found; did you mean chat? There are: chat",
		key("d", "x"):    "DynamoGraphDeployment d/x not found; there are none in this namespace",
	} {
		if err := GraphNotFound(asked, all); err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
