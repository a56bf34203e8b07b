// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A leader whose process is stopped", func() {
	// the leader's process is stopped while it places a graph, until a standby leads, has placed that and has recreated a replica. When it
	// runs again its clock has jumped, all its delays are over and all it knows is old. There is new work, which the other one, stopped in turn, has not
	// begun. It ends at its first read of the lease and writes nothing, and nothing that the other one did is undone.
	It("ends when it runs again, writes nothing, and undoes nothing that the standby did", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "frozen")
		w := e.newWorld(ctx, "frozen", racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1")...)
		e.stopOperator(ctx)
		e.deleteWebhooks(ctx) // they lead to the first replica; on a cluster the Service leads to whichever is ready
		args := []string{"--leader-elect=true", "--requeue-after=10s"}
		recorded, kubeconfig := newRecorder(w.config())
		leader, err := e.cluster.LaunchManager(sandbox.ManagerOptions{Args: append(slices.Clone(args), "--kubeconfig="+kubeconfig)})
		w.must(err)
		holder := func() string {
			lease := &coordinationv1.Lease{}
			if err := w.c.Get(ctx, key("trellis-system", "trellis-manager.trellis.dev"), lease); err != nil || lease.Spec.HolderIdentity == nil {
				return ""
			}
			return *lease.Spec.HolderIdentity
		}
		var first string
		w.until("the first replica leads", func() error {
			if first = holder(); first == "" {
				return errors.New("no one does")
			}
			return nil
		})
		standby, err := e.cluster.LaunchManager(sandbox.ManagerOptions{Name: "standby", Args: args})
		w.must(err)
		w.must(e.cluster.WaitForManager(ctx, "standby"))
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		watcher := w.follow()

		By("the leader is stopped in the middle of placing a graph; the standby places it, and recreates a replica")
		w.create(w.graphOf("h", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.must(leader.Signal(syscall.SIGSTOP))
		w.until("the standby leads", func() error {
			if now := holder(); now == first || now == "" {
				return fmt.Errorf("the lease is held by %q", now)
			}
			return nil
		})
		w.ready("h")
		w.deletePod("g-worker-0-1")
		w.until("the replica is recreated", func() error {
			if n := len(w.replicasOf("Worker")[0]); n != 4 { // of both graphs
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
		w.ready("g")
		before := map[types.UID]bool{} // those of g
		for _, pod := range w.all() {
			before[pod.UID] = pod.Labels[render.LabelGraph] == "g"
		}
		maps.DeleteFunc(before, func(_ types.UID, ofG bool) bool { return !ofG })

		By("it runs again beside work that no other leader has begun, and ends")
		w.must(standby.Signal(syscall.SIGSTOP))
		w.create(w.graphOf("i", "zone", services{"Frontend": frontend(2)}))
		w.deletePod("h-worker-0-0")
		sent := recorded.count()
		w.must(leader.Signal(syscall.SIGCONT))
		w.until("it has ended", func() error {
			if leader.Alive() {
				return errors.New("it runs")
			}
			return nil
		})
		w.must(standby.Signal(syscall.SIGCONT))
		writes, leaseReads := recorded.since(sent)
		Expect(writes).To(BeEmpty(), "the writes of the former leader")
		Expect(leaseReads).To(HaveLen(1), "the former leader's reads of the lease")
		for _, name := range []string{"g", "h", "i"} {
			w.ready(name)
		}
		Expect(w.uids()).To(haveAllOf(before))
		watcher.stop()
		w.must(e.cluster.StopManager(ctx, "standby"))
	}, SpecTimeout(suite.Timeout()))
})
