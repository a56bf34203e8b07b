// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"strings"
	"testing"
)

// A message about a refused create that is cut keeps the cause, and how much is missing in a quota.
func TestRefusalKeepsItsCause(t *testing.T) {
	const head = "its pods cannot be created: creating Worker-1 of chat: "
	for name, tc := range map[string]struct {
		text string
		most int
		want string
	}{
		"it fits": {head + "exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32", 300,
			head + "exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32"},
		"one resource": {head + "exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32", 150,
			"quota gpus: requests.nvidia.com/gpu=16 requested, 24 of 32 used"},
		"several, and who waits before": {head + "exceeded quota: all, requested: cpu=2,pods=2, used: cpu=9,pods=3, limited: cpu=10,pods=4; Worker-0 of first waits before it", 100,
			"quota all: cpu=2 requested, 9 of 10 used, and 1 more; Worker-0 of first waits before it"},
		"a LimitRange": {"its pods cannot be created: creating pod chat-worker-1-0: pods \"chat-worker-1-0\" is forbidden: maximum cpu usage per Pod is 8, but limit is 16 (LimitRange sizes)", 120,
			"its pods cannot be created: maximum cpu usage per Pod is 8, but limit is 16 (LimitRange sizes)"},
		"a webhook": {"its pods cannot be created: creating pod chat-worker-1-0 in place: admission webhook \"w\" denied the request: no", 60,
			"its pods cannot be created: admission webhook \"w\" denied the request: no"},
		"no quota": {head + "admission webhook denied the request", 40, head + "admission webhook denied the request"},
	} {
		if got := shortRefusal(tc.text, tc.most); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	waits := []Waiting{{Component: "Worker", Ordinal: 1, Code: "CreationRefused", Message: head +
		"exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32"}}
	if got := WaitingMessage(2, 3, waits); len(got) > MaxWaitingMessage || !strings.Contains(got, "requests.nvidia.com/gpu=16 requested, 24 of 32 used") {
		t.Errorf("%q lost its numbers", got)
	}
}
