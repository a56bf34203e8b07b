// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// peer is a value of the flag --provider.
type peer struct {
	provider sandbox.Provider
	labels   Labels
	// annotations of the created deployment.
	annotations map[string]string
	// programs that status lists.
	programs []string
	// theirs reports whether the peer created a worker's pod.
	theirs func(pod *corev1.Pod) bool
}

var all = []peer{
	{
		provider: sandbox.KAI, labels: suite.KAI,
		programs: []string{"kai-scheduler", "kai-binder", "kai-podgrouper", "kai-podgroupcontroller", "kai-queuecontroller"},
		theirs:   func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == "kai-scheduler" },
	},
	{
		provider: sandbox.Grove, labels: suite.Grove, programs: []string{"kai-scheduler", "grove-operator"},
		theirs: func(pod *corev1.Pod) bool { return pod.Labels["grove.io/podclique"] != "" },
	},
	{
		provider: sandbox.LeaderWorkerSet, labels: suite.LWS, programs: []string{"lws"},
		annotations: map[string]string{render.AnnotationWorkload: specs.LeaderWorkerSet},
		theirs:      func(pod *corev1.Pod) bool { return pod.Labels["leaderworkerset.sigs.k8s.io/name"] != "" },
	},
}

// A deployment without a provider annotation becomes Ready under the flag's provider; status lists its programs; down leaves nothing.
var _ = DescribeTable("sandbox up starts a real peer, and down leaves nothing of it", Serial, starts, chosen())

// chosen returns the entries of the peers that the environment selects.
func chosen() []TableEntry {
	var out []TableEntry
	for _, p := range all {
		if slices.Contains(peers.Chosen(), string(p.provider)) {
			out = append(out, Entry("--provider="+string(p.provider), p.labels, SpecTimeout(suite.Timeout()), p))
		}
	}
	return out
}

func starts(ctx SpecContext, p peer) {
	_, err := peers.Find(root, peers.Needed(p.provider)...)
	Expect(err).NotTo(HaveOccurred(), "make test-peers runs this where the chosen peers are there")
	m := newMachine(ctx)
	up := []string{"up", "--provider=" + string(p.provider), "--zones=1", "--blocks=1", "--racks=1", "--hosts=2"}
	m.mustRun(up...)
	m.becomesReady(p.annotations, p.theirs)
	status := m.mustRun("status")
	for _, program := range p.programs {
		Expect(status).To(ContainSubstring(program))
	}
	m.refusesAnother(up)
	m.lose(p.programs[0])
	m.endsWhole()
}
