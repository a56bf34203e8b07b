// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox/filelock"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	samples = "../../../shared/manifests"
	needs   = "../../internal/render/testdata/manifests"
)

// allManifests names a folder whose manifests, at any depth, are all brought up. Without it a part of what is at hand is.
const allManifests = "TRELLIS_MANIFESTS"

// onlyBindings in the environment has all of them brought up on a cluster that has ClusterTopologyBindings and no ClusterTopology.
const onlyBindings = "TRELLIS_MANIFESTS_BINDINGS"

// roomy are the samples whose pods take whole nodes, or the few nodes of a special kind: they go first, before others scatter over them.
var roomy = []string{"topology-aware-scheduling", "deepseek", "glm-5", "llama-3-70b__vllm__disagg-multi-node", "qwen3.8", "kimi-k3"}

// oneOfAKind are samples that have something which our own examples and the other samples lack.
var oneOfAKind = []string{
	"docs__kubernetes__topology-aware-scheduling__example3", "examples__backends__vllm__deploy__disagg-multinode", "examples__backends__vllm__deploy__gaie__agg",
	"examples__global_planner__global-planner-vllm-test", "recipes__deepseek-r1__vllm__disagg__deploy_hopper_16gpu", "recipes__qwen3-235b-a22b-fp8__trtllm__disagg__deploy",
	"v15__recipes__glm-5-nvfp4__sglang__disagg__efa__deploy", "v15__tests__fault_tolerance__deploy__templates__vllm__multinode_elastic_ep",
	"v1beta1/examples__backends__trtllm__deploy__disagg-multinode", "v1beta1/examples__backends__vllm__deploy__xpu__disagg_planner_xpu_dra",
	"v1beta1/examples__global_planner__global-planner-mocker-test", "v1beta1/recipes__llama-3-70b__vllm__disagg-single-node__gaie__deploy",
	"v1beta1/recipes__deepseek-v4__deepseek-v4-flash__vllm__agg-h200-agentic__deploy", "v1beta1/recipes__qwen3.8-2.4t-a95b-fp8__sglang__disagg-gb200-chat__deploy",
}

var _ = Describe("A manifest that users have", labelManifests, func() {
	// Every manifest that users are known to have, with what it presupposes, becomes Ready as it is. Specs of one container begin in their order.
	files, on := manifestFiles(), sampled
	if os.Getenv(onlyBindings) != "" {
		on = withBindings
	}
	Context("whose pods take whole nodes", func() {
		DescribeTable("becomes Ready as it is", func(ctx SpecContext, file, namespace string) {
			DeferCleanup(takingWholeNodes(ctx))
			manifestBecomesReady(ctx, on, file, namespace)
		}, manifestEntries(files, true))
	})
	Context("whose pods take parts of nodes", func() {
		DescribeTable("becomes Ready as it is", func(ctx SpecContext, file, namespace string) {
			afterWholeNodes(ctx)
			manifestBecomesReady(ctx, on, file, namespace)
		}, manifestEntries(files, false))
	})
	Context("on a cluster with ClusterTopologyBindings only", func() {
		DescribeTable("becomes Ready as it is", func(ctx SpecContext, file, namespace string) {
			manifestBecomesReady(ctx, withBindings, file, namespace)
		}, boundEntries(files))
	})
})

// boundEntries are the manifests that name a topology, each with a namespace; none where all are brought up with Bindings.
func boundEntries(files []string) (out []TableEntry) {
	if os.Getenv(onlyBindings) != "" {
		return nil
	}
	examples, _ := filepath.Glob(filepath.Join(samples, "*topology-aware-scheduling*.yaml"))
	files = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(files), examples...))))
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			panic(err) // specs are made of them: there is none yet that could fail
		}
		if namesTopology.Match(raw) {
			out = append(out, Entry(fmt.Sprintf("%s (%d)", nameOf(file), i), SpecTimeout(2*suite.Timeout()), file, fmt.Sprintf("bound-%d", i)))
		}
	}
	return out
}

var namesTopology = regexp.MustCompile(`(topologyProfile|clusterTopologyName):`)

// manifestEntries are the manifests that are roomy, or those that are not, each with a namespace.
func manifestEntries(files []string, areRoomy bool) (out []TableEntry) {
	for i, file := range files {
		isRoomy := slices.ContainsFunc(roomy, func(part string) bool { return strings.Contains(file, part) })
		if isRoomy == areRoomy {
			out = append(out, Entry(fmt.Sprintf("%s (%d)", nameOf(file), i), SpecTimeout(2*suite.Timeout()), file, fmt.Sprintf("sample-%d", i)))
		}
	}
	return out
}

func nameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".yaml") }

// takingWholeNodes has the specs that take parts of nodes wait for the one that calls it, until what it returns is called.
func takingWholeNodes(ctx context.Context) (done func()) {
	GinkgoHelper()
	done, err := filelock.Lock(ctx, wholeNodesLock(GinkgoParallelProcess()), nil)
	Expect(err).NotTo(HaveOccurred())
	return done
}

// afterWholeNodes waits until no spec of any process takes whole nodes: they begin before all others, which would scatter over their nodes.
func afterWholeNodes(ctx context.Context) {
	GinkgoHelper()
	config, _ := GinkgoConfiguration()
	for process := range config.ParallelTotal {
		unlock, err := filelock.Lock(ctx, wholeNodesLock(process+1), nil)
		Expect(err).NotTo(HaveOccurred())
		unlock()
	}
}

func wholeNodesLock(process int) string {
	return filepath.Join(common.Scratch, fmt.Sprintf("whole-nodes-%d.lock", process))
}

// notReady is the name of report entries that say why a manifest did not become Ready.
const notReady = "not Ready"

var _ = ReportAfterSuite("manifests that became Ready", func(report Report) {
	all, rows := 0, []string{}
	ready := 0
	for _, spec := range report.SpecReports {
		labels, err := spec.MatchesLabelFilter(labelManifests[0])
		if err != nil || !labels || spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
			continue
		}
		all++
		if spec.State.Is(types.SpecStatePassed) {
			ready++
			continue
		}
		why := []string{spec.FailureMessage()}
		for _, entry := range spec.ReportEntries {
			if entry.Name == notReady {
				why = []string{entry.StringRepresentation()}
			}
		}
		rows = append(rows, fmt.Sprintf("%-70s %s", spec.LeafNodeText, strings.Join(why, "; ")))
	}
	if all > 0 {
		slices.Sort(rows)
		fmt.Printf("%d of %d manifests became Ready\n%s\n", ready, all, strings.Join(rows, "\n"))
	}
})

// manifestFiles are those of the folder that is named, or else our own examples and, where they lie alongside the repository, some samples.
func manifestFiles() []string {
	var files []string
	if dir := os.Getenv(allManifests); dir != "" {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".yaml") {
				files = append(files, path)
			}
			return err
		})
		if err != nil || len(files) == 0 {
			panic(fmt.Sprintf("%s=%s holds no manifests: %v", allManifests, dir, err)) // specs are made of them: there is none yet that could fail
		}
		return files
	}
	patterns := []string{"../../internal/render/testdata/pairs/*.yaml"}
	for _, name := range oneOfAKind {
		patterns = append(patterns, filepath.Join(samples, name+".yaml"))
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	return files
}

func manifestBecomesReady(ctx context.Context, on *sharedSandbox, file, namespace string) {
	GinkgoHelper()
	w := on.open(ctx).emptyWorld(ctx, namespace)
	w.bindings = on == withBindings
	w.patience = 2 * suite.Patience()
	DeferOnFailure(func(ctx SpecContext) { AddReportEntry(notReady, w.whyNotReady(ctx)) }, NodeTimeout(suite.Patience()))
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	written := filepath.Join(needs, nameOf(file)+".needs.yaml")
	if _, err := os.Stat(written); err == nil {
		w.apply(written)
	} else {
		w.applyNeeds(file)
	}
	w.apply(file)
	dgds := list(w, &nvidiav1beta1.DynamoGraphDeploymentList{}).Items
	Expect(dgds).NotTo(BeEmpty(), "%s holds no deployment", file)
	for i := range dgds {
		w.ready(dgds[i].Name)
		w.servesAll(dgds[i].Name)
		w.countsDevices(dgds[i].Name)
	}
	w.claimsAreUsed()
	w.leavesNothing()
}

// servesAll: Ready means that every component has as many pods as it asks for, bound and running, and that its status counts them.
func (w *world) servesAll(name string) {
	w.t.Helper()
	w.until("every component of "+name+" serves", func() error {
		dgd := get(w, &nvidiav1beta1.DynamoGraphDeployment{}, w.name, name)
		for _, c := range dgd.Spec.Components {
			n, status := ptr.Deref(c.Replicas, 1), dgd.Status.Components[c.Name]
			for what, counted := range map[string]int32{
				"replicas": status.Replicas, "updated": status.UpdatedReplicas, "scheduled": ptr.Deref(status.ScheduledReplicas, -1),
				"ready": ptr.Deref(status.ReadyReplicas, -1), "available": ptr.Deref(status.AvailableReplicas, -1),
			} {
				if counted != n {
					return fmt.Errorf("%s counts %d %s, want %d", c.Name, counted, what, n)
				}
			}
			nodes := int32(1)
			if c.Multinode != nil {
				nodes = c.Multinode.NodeCount
			}
			pods := slices.DeleteFunc(w.all(), func(p corev1.Pod) bool {
				return p.Labels[render.LabelGraph] != render.LabelValue(name) || p.Labels[render.LabelComponent] != c.Name || p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning
			})
			if len(pods) != int(n*nodes) {
				return fmt.Errorf("%s has %d pods that run, want %d", c.Name, len(pods), n*nodes)
			}
		}
		return nil
	})
}

// leavesNothing: when the deployments are deleted, all that was made for them goes.
func (w *world) leavesNothing() {
	w.t.Helper()
	if err := w.c.DeleteAllOf(w.t.Context(), &nvidiav1beta1.DynamoGraphDeployment{}, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	w.until("nothing is left", func() error {
		groups, pods := list(w, &trellisv1alpha1.ScalingGroupList{}).Items, list(w, &corev1.PodList{}).Items
		if len(groups)+len(pods) > 0 {
			return fmt.Errorf("%d scaling groups and %d pods are there", len(groups), len(pods))
		}
		return nil
	})
}

// countsDevices: nothing is said not to be counted of a packed pod that claims devices.
func (w *world) countsDevices(name string) {
	w.t.Helper()
	for _, spec := range w.dgd(name).Spec.Services {
		if spec.Multinode != nil && spec.ExtraPodSpec != nil && spec.ExtraPodSpec.PodSpec != nil && len(spec.ExtraPodSpec.ResourceClaims) > 0 {
			w.hasCondition(name, nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced")
			placed := meta.FindStatusCondition(w.dgd(name).Status.Conditions, nvidiav1alpha1.ConditionPlaced)
			if strings.Contains(placed.Message, "not counted") {
				w.t.Errorf("%s: %s", name, placed.Message)
			}
		}
	}
}

// claimsAreUsed: device claims were made and allocated, so the fixtures stand for what they should.
func (w *world) claimsAreUsed() {
	w.t.Helper()
	for _, pod := range w.all() {
		if len(pod.Spec.ResourceClaims) > 0 && len(pod.Status.ResourceClaimStatuses) == 0 {
			w.t.Errorf("pod %s runs without its device claims", pod.Name)
		}
	}
}
