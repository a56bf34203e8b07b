// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// machine is the state of the machine that real nodes could change.
type machine struct {
	Processes, Mounts, Cgroups, Interfaces []string
	Settings                               map[string]string
}

// inNodes matches the folders of this suite's sandboxes, to recognize everything that belongs to real nodes.
var inNodes = regexp.MustCompile(`trellis-(nodes|killed)[0-9]+/s(/|\b)`)

// lookAtMachine returns the current state.
func lookAtMachine() machine {
	return machine{
		Processes: nodeProcesses(), Mounts: nodeMounts(), Cgroups: cgroups(), Interfaces: interfaces(), Settings: kernelSettings(),
	}
}

// nodeProcesses returns the processes of sandboxes, and the processes in mount namespaces with a folder of a sandbox: the latter finds the
// processes of pods, whose environment does not name the sandbox.
func nodeProcesses() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		mounts, _ := os.ReadFile(filepath.Join(dir, "mountinfo"))
		if inNodes.Match(environ) && strings.Contains(string(environ), "TRELLIS_SANDBOX_DIR=") || inNodes.Match(mounts) {
			name, _ := os.ReadFile(filepath.Join(dir, "comm"))
			found = append(found, filepath.Base(dir)+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}

func nodeMounts() []string {
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			found = append(found, fields[4])
		}
	}
	slices.Sort(found)
	return found
}

// cgroups returns the cgroups of sandboxes, and of pods outside of them.
func cgroups() []string {
	var found []string
	for _, pattern := range []string{"trellis-*", "*/trellis-*", "kubepods*", "*/kubepods*", "k8s.io", "*/k8s.io"} {
		dirs, _ := filepath.Glob("/sys/fs/cgroup/" + pattern)
		found = append(found, dirs...)
	}
	return found
}

func interfaces() []string {
	entries, err := os.ReadDir("/sys/class/net")
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// counted matches files below /proc/sys that are counters, not settings.
var counted = regexp.MustCompile(`^/proc/sys/(kernel/(random|ns_last_pid|pty|perf|sched_domain|tainted)|fs/|.*(count|stat|_nr)$)`)

// kernelSettings returns the values below /proc/sys.
func kernelSettings() map[string]string {
	values := map[string]string{}
	_ = filepath.WalkDir("/proc/sys", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !counted.MatchString(path) {
			if value, readErr := os.ReadFile(path); readErr == nil {
				values[path] = string(value)
			}
		}
		return nil
	})
	return values
}
