// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/pages"
)

// withoutBeta prepares the way back to a version that knows v1alpha1 only, as docs/migrate.md describes it: the present operator rewrites
// everything as v1alpha1 and ends, and the definitions have no other version.
func (w *world) withoutBeta(ctx context.Context) {
	GinkgoHelper()
	w.runBlock(ctx, `"path":"/spec/versions/0/storage"`)
	for _, definition := range convert.Definitions {
		Eventually(func() string {
			return w.kubectl(ctx, "kubectl get crd "+definition+" -o jsonpath='{.status.storedVersions}'")
		}).WithContext(ctx).Should(Equal(`["v1alpha1"]`), "the stored versions of %s", definition)
	}
	Expect(w.cluster.StopManager(ctx, sandbox.DefaultManager)).To(Succeed())
	w.runBlock(ctx, `"op":"remove","path":"/spec/versions/1"`)
}

// runBlock runs the commands of docs/migrate.md that contain a text.
func (w *world) runBlock(ctx context.Context, contains string) {
	GinkgoHelper()
	commands, err := pages.Commands(filepath.Join(root(), "docs", "migrate.md"), contains)
	Expect(err).NotTo(HaveOccurred())
	w.kubectl(ctx, commands)
}

// kubectl returns the output of commands that use kubectl.
func (w *world) kubectl(ctx context.Context, commands string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig(),
		"PATH="+w.cluster.Assets()+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECACHEDIR="+GinkgoT().TempDir())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", fmt.Sprintf("%s\n%s", commands, out))
	return string(out)
}
