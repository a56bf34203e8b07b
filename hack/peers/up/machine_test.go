// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// machine runs the command for one sandbox.
type machine struct {
	// ctx ends with the spec.
	ctx context.Context
	dir string
}

func newMachine(ctx context.Context) *machine {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "peers-up") // short, because of the path of a socket
	Expect(err).NotTo(HaveOccurred())
	m := &machine{ctx: ctx, dir: filepath.Join(dir, "s")}
	DeferCleanup(func(ctx SpecContext) error {
		err := sandbox.Down(ctx, m.dir)
		_ = os.Remove(dir) // this fails if logs were kept in it
		if errors.Is(err, sandbox.ErrNotFound) {
			return nil
		}
		return err
	}, NodeTimeout(suite.Patience()))
	DeferOnFailure(func() {
		kept := filepath.Join(dir, "logs")
		_ = os.CopyFS(kept, os.DirFS(filepath.Join(m.dir, "logs"))) // a sandbox that did not start has no logs
		AddReportEntry("the logs are in", kept, ReportEntryVisibilityFailureOrVerbose)
	})
	return m
}

// run executes the command with the sandbox's flags and returns both of its outputs.
func (m *machine) run(args ...string) (string, error) {
	of := append([]string{"sandbox", "--name=peers-up", "--dir=" + m.dir}, args...)
	cmd := exec.CommandContext(m.ctx, filepath.Join("bin", "kubectl-trellis"), of...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) mustRun(args ...string) string {
	GinkgoHelper()
	out, err := m.run(args...)
	Expect(err).NotTo(HaveOccurred(), "sandbox %s: %s", strings.Join(args, " "), out)
	return out
}

// becomesReady creates a deployment and waits until it is Ready with pods of the provider.
func (m *machine) becomesReady(annotations map[string]string, theirs func(*corev1.Pod) bool) {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.dir, "kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	var api client.Client
	Eventually(m.ctx, func() error {
		api, err = client.New(config, client.Options{Scheme: operator.NewScheme()})
		return err
	}).Should(Succeed(), "connecting to the API server")
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", Annotations: annotations},
		Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: graphs.Components{"Worker": graphs.Worker(1, 2, 8, "")}},
	}
	Expect(api.Create(m.ctx, dgd)).To(Succeed())
	Eventually(m.ctx, func() ([]metav1.Condition, error) {
		err := api.Get(m.ctx, client.ObjectKeyFromObject(dgd), dgd)
		return dgd.Status.Conditions, err
	}).Should(ContainElement(And(
		HaveField("Type", nvidiav1alpha1.ConditionReady), HaveField("Status", metav1.ConditionTrue),
	)), "waiting until the deployment is Ready")
	pods := &corev1.PodList{}
	Expect(api.List(m.ctx, pods, client.InNamespace("default"), client.HasLabels{render.LabelGraph})).To(Succeed())
	Expect(pods.Items).To(HaveLen(2))
	for i := range pods.Items {
		pod := &pods.Items[i]
		Expect(theirs(pod)).To(BeTrue(), "pod %s is not the provider's: scheduler %s, labels %v", pod.Name, pod.Spec.SchedulerName, pod.Labels)
	}
}

// refusesAnother checks that a second sandbox with the same ports is refused before anything starts.
func (m *machine) refusesAnother(up []string) {
	GinkgoHelper()
	other := &machine{ctx: m.ctx, dir: m.dir + "2"}
	out, err := other.run(up...)
	Expect(err).To(HaveOccurred(), "a second sandbox starts")
	Expect(out).To(ContainSubstring("is in use"))
	Expect(other.dir).NotTo(BeAnExistingFile())
}

// lose kills a program, and checks that status reports that.
func (m *machine) lose(program string) {
	GinkgoHelper()
	p, err := proc.Load(filepath.Join(m.dir, "run", program+".pid"))
	Expect(err).NotTo(HaveOccurred())
	handle, err := os.FindProcess(p.PID)
	Expect(err).NotTo(HaveOccurred())
	Expect(handle.Kill()).To(Succeed())
	Expect(p.Wait(m.ctx)).To(Succeed())
	out, err := m.run("status")
	Expect(err).To(HaveOccurred(), "status with a dead program: %s", out)
	Expect(out).To(ContainSubstring("stopped"))
}

// endsWhole runs sandbox down and checks that nothing remains.
func (m *machine) endsWhole() {
	GinkgoHelper()
	running, err := proc.LoadAll(filepath.Join(m.dir, "run"))
	Expect(err).NotTo(HaveOccurred())
	Expect(len(running)).To(BeNumerically(">=", len(sandbox.Components)), "processes that are recorded")
	m.mustRun("down")
	for _, p := range running {
		Expect(p.Alive()).To(BeFalse(), "%s (pid %d) survived", p.Name, p.PID)
	}
	Expect(m.dir).NotTo(BeAnExistingFile())
}
