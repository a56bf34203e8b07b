// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

const enginesImage = "localhost/engines:1"

// enginePackages are the Debian packages in the image of the engines, with their dependencies. They are not installed on this machine.
var enginePackages = []string{"bash", "coreutils", "dash", "python3", "openmpi-bin", "openssh-client", "openssh-server"}

// useless are folders of the packages that no program of the image reads.
var useless = []string{
	"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl*", "usr/share/X11",
	"usr/share/zoneinfo", "usr/lib/*/perl*", "usr/lib/*/gconv", "var/cache",
}

// engineFiles are files that the packages' scripts would create, and the modules of Dynamo that a peer replaces.
var engineFiles = map[string]string{
	"etc/passwd":                   "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n",
	"etc/group":                    "root:x:0:\nnogroup:x:65534:\n",
	"etc/nsswitch.conf":            "hosts: files dns\n",
	"etc/ssh/sshd_config":          "# the defaults of OpenSSH\n",
	"run/sshd/.keep":               "",
	dynamoPackage + "/__init__.py": "",
	dynamoPackage + "/vllm.py":     fmt.Sprintf(moduleText, "dynamo.vllm"),
	dynamoPackage + "/sglang.py":   fmt.Sprintf(moduleText, "dynamo.sglang"),
	dynamoPackage + "/trtllm.py":   fmt.Sprintf(moduleText, "dynamo.trtllm"),
}

const (
	dynamoPackage = "usr/lib/python3/dist-packages/dynamo"
	moduleText    = "import os, sys\nos.execv('/bin/peer', ['%s'] + sys.argv[1:])\n"
)

// engineLinks maps paths to link targets, for links that no package has created.
var engineLinks = map[string]string{
	"bin/sh": "dash", "usr/bin/mpirun": "mpirun.openmpi", "bin/ray": "peer", "bin/trtllm-llmapi-launch": "peer",
}

// enginesOf returns the image with the real programs that start engines on several nodes: Python, OpenSSH and Open MPI.
func enginesOf(ctx SpecContext, peer sandbox.Image) sandbox.Image {
	GinkgoHelper()
	return sandbox.Image{
		Name: enginesImage, Root: enginesRoot(ctx), Files: peer.Files, Entrypoint: []string{"/bin/bash"},
		Path: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
	}
}

// enginesRoot returns the folder with the file system of the image. The first call creates it in the user's cache.
func enginesRoot(ctx SpecContext) string {
	GinkgoHelper()
	cache, err := os.UserCacheDir()
	Expect(err).NotTo(HaveOccurred())
	sum := sha256.Sum256(fmt.Append(nil, enginePackages, useless, engineFiles, engineLinks))
	root := filepath.Join(cache, "trellis", "engines-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(root); err == nil {
		return root
	}
	Expect(os.MkdirAll(filepath.Dir(root), 0o700)).To(Succeed())
	scratch, err := os.MkdirTemp(filepath.Dir(root), "engines-building-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, scratch)
	made := filepath.Join(scratch, "root")
	Expect(os.Mkdir(made, 0o755)).To(Succeed()) //nolint:gosec // the root folder of containers
	for _, file := range downloaded(ctx, scratch) {
		run(ctx, "dpkg-deb", "--extract", file, made)
	}
	for _, pattern := range useless {
		dirs, err := filepath.Glob(filepath.Join(made, pattern))
		Expect(err).NotTo(HaveOccurred())
		for _, dir := range dirs {
			Expect(os.RemoveAll(dir)).To(Succeed())
		}
	}
	for name, text := range engineFiles {
		file := filepath.Join(made, name)
		Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())  //nolint:gosec // readable by any user
		Expect(os.WriteFile(file, []byte(text), 0o644)).To(Succeed()) //nolint:gosec // readable by any user
	}
	for name, target := range engineLinks {
		if _, err := os.Lstat(filepath.Join(made, name)); err != nil {
			Expect(os.Symlink(target, filepath.Join(made, name))).To(Succeed())
		}
	}
	Expect(os.Rename(made, root)).To(Succeed())
	return root
}

// downloaded downloads the packages with all dependencies, as for a machine without packages.
func downloaded(ctx SpecContext, scratch string) []string {
	GinkgoHelper()
	archives, status := filepath.Join(scratch, "archives"), filepath.Join(scratch, "status")
	Expect(os.MkdirAll(filepath.Join(archives, "partial"), 0o700)).To(Succeed())
	Expect(os.WriteFile(status, nil, 0o600)).To(Succeed())
	run(ctx, "apt-get", slices.Concat([]string{
		"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + archives, "-o", "Debug::NoLocking=1",
		"-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "install", "--download-only", "--no-install-recommends", "-y", "-qq",
	}, enginePackages)...)
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	return files
}

func run(ctx SpecContext, program string, args ...string) {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", program, strings.Join(args, " "), out)
}
