// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// newEnvironment brings up a cluster of its own, beside the shared one, for scenarios in which the operator or its webhooks go away.
func newEnvironment(t *testing.T, name string, change ...func(*sandbox.Options)) environment {
	t.Helper()
	options := sandbox.Options{
		Name: name, Dir: filepath.Join(t.TempDir(), "s"), Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1}, Operator: true,
	}
	for _, f := range change {
		f(&options)
	}
	cluster, err := sandbox.Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(proc.Tail(cluster.LogFile(sandbox.DefaultManager), 60))
			keepLog(cluster, "trellis-e2e-"+name+"-manager.log")
		}
		if err := cluster.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return environment{cluster: cluster, c: newClient(cluster)}
}

// deleteWebhooks deletes the webhook configurations and waits until the API server has noticed. From then on the test converts between the
// versions, whether or not an operator is there.
func (e environment) deleteWebhooks(t testing.TB) {
	t.Helper()
	server := conversion.Serve()
	t.Cleanup(server.Close)
	if err := e.convertBy(t.Context(), server); err != nil {
		t.Fatal(err)
	}
}

// convertBy has a server convert between the versions, and deletes the webhook configurations.
func (e environment) convertBy(ctx context.Context, server *conversion.Server) error {
	if err := server.TakeOver(ctx, e.c); err != nil {
		return err
	}
	for _, o := range []client.Object{&admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}} {
		if err := e.c.DeleteAllOf(ctx, o); err != nil {
			return err
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		probe := &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": worker(1, 1, 1, "")}},
		}
		last = e.c.Create(ctx, probe, client.DryRunAll)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("admission still asks the webhooks: %w", last)
	}
	return nil
}

func (e environment) stopOperator(t *testing.T) {
	t.Helper()
	if err := e.cluster.StopManager(t.Context(), sandbox.DefaultManager); err != nil {
		t.Fatal(err)
	}
}

// The operator goes away under running graphs, comes back to wrong objects, and is uninstalled at last. Each step leaves the pods that
// run alone, and nothing is left that cannot be deleted.
func TestOperatorGoesAway(t *testing.T) {
	tier.All(t)
	t.Parallel()
	e := newEnvironment(t, "alone")
	w := newWorldIn(t, e, "alone", racks(2, 8, "a/r0", "b/r0")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	before := w.uids()

	t.Log("while the operator is down, admission fails closed and says what cannot be reached; deletion does not ask")
	e.stopOperator(t)
	err := e.c.Create(t.Context(), w.graphOf("closed", "zone", services{"Worker": worker(1, 1, 1, "")}))
	if err == nil || !strings.Contains(err.Error(), "trellis.dev") {
		t.Errorf("creating a deployment without the operator: %v; want a refusal that names the webhook", err)
	}

	t.Log("with the webhooks gone as well, the schema still refuses what it can")
	e.deleteWebhooks(t)
	withProfile := w.graphOf("profile-on-service", "zone", services{"Worker": worker(1, 1, 1, "rack")})
	withProfile.Spec.Services["Worker"].TopologyConstraint.TopologyProfile = w.name
	refused(t, e.c.Create(t.Context(), withProfile), "topologyProfile must not be set on a service")
	constraint := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topologyConstraint":{"packDomain":"rack"}}}`))
	refused(t, e.c.Patch(t.Context(), w.dgd("g"), constraint), "immutable")

	t.Log("what only the webhook would have refused is reported on status once the operator is back, and what runs goes on running")
	w.create(w.graphOf("unknown-domain", "moon", services{"Worker": worker(1, 1, 1, "")}))
	broader := w.graphOf("broader", "rack", services{"Worker": worker(1, 1, 1, "zone")})
	w.create(broader)
	annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/vllm-distributed-executor-backend":"carrier-pigeon"}}}`))
	if err := e.c.Patch(t.Context(), w.dgd("g"), annotate); err != nil {
		t.Fatal(err)
	}
	if err := e.cluster.StartManager(t.Context(), sandbox.ManagerOptions{Args: []string{"--webhooks=false"}}); err != nil {
		t.Fatal(err)
	}
	w.hasCondition("unknown-domain", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "packDomain not found in cluster topology", "moon")
	w.hasCondition("broader", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "hierarchy violation")
	w.hasCondition("g", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "carrier-pigeon")
	for uid := range before {
		if !w.uids()[uid] {
			t.Error("a pod that ran before the object became invalid is gone")
		}
	}
	mend := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/vllm-distributed-executor-backend":null}}}`))
	if err := e.c.Patch(t.Context(), w.dgd("g"), mend); err != nil {
		t.Fatal(err)
	}
	w.ready("g")

	t.Log("uninstalled while deployments exist, everything of theirs can still be deleted, by ownership alone")
	e.stopOperator(t)
	for _, name := range []string{"g", "unknown-domain", "broader"} {
		if err := e.c.Delete(t.Context(), w.dgd(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.until("everything is gone", func() error {
		left := len(list(w, &corev1.PodList{}).Items) + len(list(w, &trellisv1alpha1.ScalingGroupList{}).Items) +
			len(list(w, &nvidiav1alpha1.DynamoGraphDeploymentList{}).Items) + len(list(w, &corev1.ServiceList{}).Items)
		if left > 0 {
			return fmt.Errorf("%d objects are left", left)
		}
		return nil
	})
}

// The operator is killed in the midst of things, again and again. No other scenario runs meanwhile: those with t.Parallel come after this one.
func TestKilledOperator(t *testing.T) {
	e := shared
	w := newWorldIn(t, e, "killed", racks(4, 8, "a/r0", "a/r1", "b/r0")...)
	for _, name := range []string{"one", "two", "three"} {
		w.create(w.graphOf(name, "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		if err := e.cluster.KillManager(t.Context(), sandbox.DefaultManager); err != nil {
			t.Fatal(err)
		}
		if err := e.cluster.StartManager(t.Context(), sandbox.ManagerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		w.ready(name)
	}
	if n := len(w.all()); n != 9 {
		t.Errorf("%d pods, want 9", n)
	}
}

// With two replicas only the leader acts, and the standby is ready for admission. When the leader ends, the standby takes over.
func TestStandbyTakesOver(t *testing.T) {
	tier.All(t)
	t.Parallel()
	e := newEnvironment(t, "standby")
	w := newWorldIn(t, e, "standby", racks(2, 8, "a/r0")...)
	e.stopOperator(t)
	elect := []string{"--leader-elect=true"}
	for _, name := range []string{sandbox.DefaultManager, "standby"} {
		if err := e.cluster.StartManager(t.Context(), sandbox.ManagerOptions{Name: name, Args: elect}); err != nil {
			t.Fatalf("starting %s, which has to get ready whether or not it leads: %v", name, err)
		}
	}
	e.stopOperator(t)
	e.deleteWebhooks(t) // they lead to the first replica; on a cluster the Service leads to whichever is ready
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
	w.ready("g")
	if err := e.cluster.StopManager(t.Context(), "standby"); err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want a refusal with %q", err, part)
	}
}
