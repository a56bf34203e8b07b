// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func TestUpgrades(t *testing.T) { suite.Run(t, "Upgrades", suite.Default) }

// root returns the root of the repository.
func root() string {
	GinkgoHelper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	Expect(err).NotTo(HaveOccurred())
	return dir
}

// present returns the version of the work tree.
func present() sandbox.Release {
	return sandbox.Release{
		Manifests:     filepath.Join(root(), "config", "default"),
		ManagerBinary: filepath.Join(root(), "bin", "trellis-manager"),
	}
}

// earlier builds the operator of a commit below bin, unless it exists there.
func earlier(ctx context.Context, commit string) sandbox.Release {
	GinkgoHelper()
	dir := filepath.Join(root(), "bin", "earlier", commit)
	out := sandbox.Release{Manifests: filepath.Join(dir, "config", "default"), ManagerBinary: filepath.Join(dir, "trellis-manager")}
	if _, err := os.Stat(out.ManagerBinary); err == nil {
		return out
	}
	known := run(ctx, root(), "git", "cat-file", "-t", commit)
	Expect(strings.TrimSpace(known)).To(Equal("commit"), "%s is no commit of this clone: fetch its whole history", commit)
	Expect(os.RemoveAll(dir)).To(Succeed())
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	archive := filepath.Join(dir, "source.tar")
	run(ctx, root(), "git", "archive", "--format=tar", "--output="+archive, commit)
	run(ctx, dir, "tar", "-xf", archive)
	run(ctx, dir, "go", "build", "-o", out.ManagerBinary, "./cmd/trellis-manager")
	return out
}

// run returns the output of a command.
func run(ctx context.Context, dir, name string, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, fmt.Sprint(args), out)
	return string(out)
}
