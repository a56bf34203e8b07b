// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// reviews are requests that store nothing, though their verb is create.
var reviews = []string{"tokenreviews", "subjectaccessreviews", "selfsubjectreviews"}

// later is for how long a settled operator is watched for writes that come by time alone: it looks at providers every 10 seconds, definitions have to
// be 10 seconds old before it rewrites what is stored in them, and back-offs begin with less.
const later = 30 * time.Second

var _ = Describe("An operator that starts where nothing changes any more", func() {
	// everything that Trellis makes is there, one graph waits, and nothing changes any more. An operator that starts then
	// changes nothing: by the API server's audit log it says once more on the waiting pod why that waits, and that is all. Under both providers that the
	// sandbox has a scheduler for.
	DescribeTable("writes nothing but the event on the pod that waits", func(ctx SpecContext, provider sandbox.Provider) {
		name := "cold-" + strings.ToLower(string(provider))
		e := newEnvironment(of(ctx), name, func(o *sandbox.Options) { o.Audit, o.Provider = true, provider })
		w := e.newWorld(ctx, name, racks(2, 8, "a/r0", "a/r1", "b/r0")...)
		w.everyKind()
		w.until("the operator has looked at everything", w.lookedAt)
		w.until("nothing is written any more", w.unwritten(later))
		before, hooks := len(w.written()), w.hookVersions()

		e.stopOperator(ctx)
		w.must(e.cluster.StartManager(ctx, sandbox.ManagerOptions{}))
		w.until("the operator has looked at everything", w.lookedAt)
		w.until("nothing came later", w.unwritten(later))
		said, others := 0, []string{}
		for _, write := range w.written()[before:] {
			switch {
			case strings.HasPrefix(write, "create events/ "+name+"/waits-worker-0-0."):
				said++
			case strings.HasPrefix(write, "update mutatingwebhookconfigurations/"), strings.HasPrefix(write, "update validatingwebhookconfigurations/"):
				// The certificate's library writes the authority at each start; hookVersions says that it was the same.
			default:
				others = append(others, write)
			}
		}
		Expect(others).To(BeEmpty(), "what a cold start wrote")
		Expect(said).To(Equal(1), "the events on the pod that waits")
		Expect(w.hookVersions()).To(Equal(hooks), "the resourceVersions of the webhook configurations")
	},
		Entry("under Gates", SpecTimeout(suite.Timeout()), sandbox.Gates),
		Entry("under PodGroup", SpecTimeout(suite.Timeout()), sandbox.PodGroup),
	)
})

// hookVersions are the resourceVersions of the webhook configurations.
func (w *world) hookVersions() string {
	w.t.Helper()
	mutating := get(w, &admissionv1.MutatingWebhookConfiguration{}, "", "trellis-mutating-webhook-configuration")
	validating := get(w, &admissionv1.ValidatingWebhookConfiguration{}, "", "trellis-validating-webhook-configuration")
	return mutating.ResourceVersion + " " + validating.ResourceVersion
}

// everyKind makes deployments that bring all kinds of objects, and waits until each has got as far as it can.
func (w *world) everyKind() {
	w.t.Helper()
	w.createText(strings.NewReplacer("NAME", "one", "e2e.trellis.dev/pool: brings", "e2e.trellis.dev/pool: "+w.name).Replace(brings))
	w.createVolume("one-weights")
	w.apply(filepath.Join(needs, "examples__backends__vllm__deploy__gaie__agg.needs.yaml"))
	w.createVolume("datasets")
	w.create(claimOf(w.name, "datasets"))
	w.create(w.graphOf("packed", "zone", services{"Worker": withAdapter(worker(2, 2, 8, "rack")), "Frontend": frontend(1)}))
	w.applyText(strings.ReplaceAll(onlyInBeta, "back", w.name))
	for _, name := range []string{"one", "packed", "newer"} {
		w.ready(name)
	}
	w.setImage("packed", "Worker", "example.com/vllm:2")
	w.until("the update is over", func() error {
		if u := w.dgd("packed").Status.RollingUpdate; u == nil || u.Phase != nvidiav1alpha1.RollingUpdateCompleted {
			return fmt.Errorf("it is %+v", u)
		}
		return nil
	})
	w.patch("packed", `{"spec":{"restart":{"id":"one"}}}`)
	w.restarted("packed", "one")
	w.ready("packed")
	w.create(w.graphOf("waits", "zone", services{"Worker": worker(1, 3, 8, "rack")}))
	w.hasCondition("waits", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "NeverFits")
}

// written are the writes of the operator that were accepted so far, by the API server's audit log.
func (w *world) written() (out []string) {
	w.t.Helper()
	log, err := os.Open(w.cluster.AuditFile())
	w.must(err)
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Stage, Verb    string
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		w.must(json.Unmarshal(lines.Bytes(), &e))
		refused, reads := e.ResponseStatus.Code >= http.StatusMultipleChoices, slices.Contains([]string{"get", "list", "watch"}, e.Verb)
		if e.Stage != "ResponseComplete" || refused || reads || slices.Contains(reviews, e.ObjectRef.Resource) {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s/%s %s/%s", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Namespace, e.ObjectRef.Name))
	}
	w.must(lines.Err())
	return out
}

// unwritten returns a look that is satisfied once the operator has written nothing for a while.
func (w *world) unwritten(while time.Duration) func() error {
	before, since := -1, time.Now()
	return func() error {
		if now := len(w.written()); now != before {
			before, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < while {
			return fmt.Errorf("the last of %d writes was seen %s ago", before, quiet)
		}
		return nil
	}
}

// lookedAt is an error until every controller of the operator has reconciled its objects, has no more to do, and the graph that waits was planned.
func (w *world) lookedAt() error {
	reader, err := w.cluster.NewMetricsReader(w.t.Context())
	if err != nil {
		return err
	}
	text, err := reader.Read(w.t.Context(), w.cluster.ManagerMetrics(sandbox.DefaultManager))
	if err != nil {
		return err
	}
	graphs, groups := len(list(w, &nvidiav1alpha1.DynamoGraphDeploymentList{}).Items), len(list(w, &trellisv1alpha1.ScalingGroupList{}).Items)
	for controller, objects := range map[string]int{"graph": graphs, "scalingadapter": graphs, "scalinggroup": groups, "clustertopology": 1, "storageversion": 2} {
		if done := sandbox.Series(text, "controller_runtime_reconcile_total", fmt.Sprintf("controller=%q", controller)); done < float64(objects) {
			return fmt.Errorf("%s has reconciled %.0f times, and has %d objects", controller, done, objects)
		}
	}
	if depth, active := sandbox.Series(text, "workqueue_depth"), sandbox.Series(text, "controller_runtime_active_workers"); depth+active > 0 {
		return fmt.Errorf("%.0f in queues, %.0f at work", depth, active)
	}
	if waiting := sandbox.Series(text, "trellis_graphs_waiting"); waiting != 1 {
		return fmt.Errorf("%.0f graphs wait, want 1", waiting)
	}
	return nil
}
