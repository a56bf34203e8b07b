// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	peerImage    = "localhost/peer:1"
	busyboxImage = "localhost/busybox:1"
	realNodes    = 4
)

// The sandbox and the clients of each test process.
var (
	root    string
	cluster *sandbox.Sandbox
	api     client.WithWatch
)

func TestNodes(t *testing.T) { suite.Run(t, "Real nodes", suite.Default) }

var _ = SynchronizedBeforeSuite(start, connect, NodeTimeout(suite.Timeout()))

// start starts the sandbox, and compares the machine before and after the suite.
func start(ctx SpecContext) []byte {
	before := lookAtMachine()
	Expect(before.Processes).To(BeEmpty(), "processes of an earlier run: end its sandbox with kubectl trellis sandbox down --dir")
	scratch, err := os.MkdirTemp("", "trellis-nodes")
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(scratch, "s")
	Expect(reap(clone(), scratch, dir)).To(Succeed())
	DeferCleanup(func() {
		Expect(lookAtMachine()).To(Equal(before), "what is on the machine after all specs")
		_ = os.Remove(scratch) // this fails if logs were kept in it
	})
	set, err := peers.Find(clone(), string(sandbox.LeaderWorkerSet))
	Expect(err).NotTo(HaveOccurred())
	peer := peerOf(ctx, scratch)
	running, err := sandbox.Up(ctx, sandbox.Options{
		Name: "nodes", Dir: dir, Root: clone(), Operator: true, Provider: sandbox.PodGroup, Peers: set.Beside(progress.Discard),
		Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: -1},
		Real:  sandbox.RealNodes{Count: realNodes, Images: []sandbox.Image{peer, enginesOf(ctx, peer)}},
	})
	Expect(err).NotTo(HaveOccurred(), "bringing the sandbox up")
	DeferCleanup(func(ctx SpecContext) {
		Expect(suite.KeepLogs(filepath.Join(dir, "logs"), filepath.Join(clone(), "bin", "nodes-logs"))).To(Succeed())
		Expect(running.Down(ctx)).To(Succeed())
	}, NodeTimeout(suite.Timeout()))
	return []byte(dir)
}

// connect connects to the sandbox, and builds what all specs need.
func connect(ctx SpecContext, dir []byte) {
	var err error
	root = clone()
	cluster, err = sandbox.Open(string(dir))
	Expect(err).NotTo(HaveOccurred())
	config, err := cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	api = suite.Connect(ctx, config, operator.NewScheme())
	if GinkgoParallelProcess() > 1 {
		return
	}
	cordonSimulated(ctx, api, true)
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, hall()))).To(Succeed())
}

// cordonSimulated cordons the simulated node, which keeps the pods on real nodes, or makes it schedulable.
func cordonSimulated(ctx SpecContext, api client.Client, cordoned bool) {
	GinkgoHelper()
	cordon := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned))
	nodes := &corev1.NodeList{}
	Expect(api.List(ctx, nodes, client.MatchingLabels{simulated.ZoneKey: "zone-0"})).To(Succeed())
	for i := range nodes.Items {
		Expect(api.Patch(ctx, &nodes.Items[i], cordon)).To(Succeed())
	}
}

// hall is the topology of all specs.
func hall() *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "hall"},
		Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: simulated.ZoneKey}, {Domain: "rack", Key: simulated.RackKey}, {Domain: "host", Key: simulated.HostKey},
		}},
	}
}

func clone() string {
	GinkgoHelper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	Expect(err).NotTo(HaveOccurred())
	return dir
}

// peerOf builds the program of the pods, and describes its image.
func peerOf(ctx SpecContext, scratch string) sandbox.Image {
	GinkgoHelper()
	return sandbox.Image{
		Name: peerImage, Files: map[string]string{"/bin/peer": built(ctx, scratch, "./peer")}, Entrypoint: []string{"/bin/peer"},
	}
}

// built builds a static program, and returns its file.
func built(ctx SpecContext, scratch, source string) string {
	GinkgoHelper()
	program := filepath.Join(scratch, filepath.Base(source))
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "building %s: %s", source, out)
	DeferCleanup(os.Remove, program)
	return program
}

// plugin runs the kubectl plugin on the sandbox.
func plugin(ctx SpecContext, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-trellis"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	AddReportEntry(fmt.Sprint("kubectl trellis ", args), string(out), ReportEntryVisibilityFailureOrVerbose)
	if err != nil {
		GinkgoWriter.Println("the plugin's exit:", err)
	}
	return string(out)
}
