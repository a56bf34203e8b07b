// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Provider is the system that places or makes the pods, as far as the sandbox must know it. It decides on feature gates and peers.
type Provider string

const (
	// Gates needs only a default control plane.
	Gates Provider = "Gates"
	// PodGroup needs the feature gates and API versions of gang and topology-aware scheduling in Kubernetes.
	PodGroup Provider = "PodGroup"
	// KAI needs KAI Scheduler, which Options.Peers starts.
	KAI Provider = "KAI"
	// Grove needs Grove and KAI Scheduler, which Options.Peers starts.
	Grove Provider = "Grove"
	// LeaderWorkerSet makes the pods of multinode components; Options.Peers starts it.
	LeaderWorkerSet Provider = "LeaderWorkerSet"
)

// Providers are the valid providers.
var Providers = []Provider{Gates, PodGroup, KAI, Grove, LeaderWorkerSet}

// DefaultName is the name of a sandbox without a name.
const DefaultName = "default"

// maxSocketPath is the longest path of a Unix socket on all supported systems.
const maxSocketPath = 103

// Options are the options of Up. The zero value starts a sandbox without the operator.
type Options struct {
	// Name of the sandbox; its kubeconfig context is trellis-NAME.
	Name string
	// Dir is the directory of the sandbox; default: a directory with that name in the user's cache directory.
	Dir string
	// Root is the root of the clone; default: found from the working directory.
	Root string
	// Shape of the simulated hardware. NodesFile is a file with Nodes to use instead (YAML or JSON, lists allowed:
	// kubectl get nodes -o yaml).
	simulated.Shape
	NodesFile string
	Provider  Provider
	// Real are additional nodes with kubelets and containers.
	Real RealNodes
	// Peers run next to the control plane; nil for none.
	Peers *Peers
	// Operator applies the Manifests (default config/default) and starts ManagerBinary (default bin/trellis-manager).
	Operator      bool
	Manifests     string
	ManagerBinary string
	// Manager has additional flags and environment variables for the manager.
	Manager ManagerOptions
	// Audit logs the operator's requests: see AuditFile.
	Audit bool
	// AuditPolicy is a file with a Policy of audit.k8s.io that selects the requests to log instead.
	AuditPolicy string
	// Progress receives a report of each step.
	Progress progress.Func
}

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// complete sets defaults and rejects invalid options.
func (o Options) complete() (Options, error) {
	o.Name, o.Provider = cmp.Or(o.Name, DefaultName), cmp.Or(o.Provider, Gates)
	if !validName.MatchString(o.Name) {
		return o, fmt.Errorf("sandbox name %q: use up to 40 lower-case letters, digits and dashes", o.Name)
	}
	if !slices.Contains(Providers, o.Provider) {
		return o, fmt.Errorf("provider %q: the sandbox knows %v", o.Provider, Providers)
	}
	if o.Provider != Gates && o.Provider != PodGroup && o.Peers == nil {
		return o, fmt.Errorf("provider %s: no peers are given that start it", o.Provider)
	}
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	var err error
	if o.Real, err = o.Real.complete(); err != nil {
		return o, err
	}
	if o.Shape, err = o.Shape.Complete(); err != nil {
		return o, err
	}
	return o.withPaths()
}

// withPaths sets default paths and makes all paths absolute, since the API server has another working directory.
func (o Options) withPaths() (Options, error) {
	var err error
	if o.Dir, err = Dir(o.Name, o.Dir); err != nil {
		return o, err
	}
	if path := filepath.Join(o.Dir, etcdSocket); len(path) > maxSocketPath {
		return o, fmt.Errorf("%s is too long for a Unix socket: choose a directory with a path of at most %d characters", o.Dir,
			maxSocketPath-len(etcdSocket)-1)
	}
	if o.Root == "" {
		if o.Root, err = workingRoot(); err != nil {
			return o, err
		}
	}
	if o.Manifests, err = filepath.Abs(cmp.Or(o.Manifests, filepath.Join(o.Root, "config", "default"))); err != nil {
		return o, err
	}
	if o.ManagerBinary, err = filepath.Abs(cmp.Or(o.ManagerBinary, filepath.Join(o.Root, "bin", "trellis-manager"))); err != nil {
		return o, err
	}
	if o.AuditPolicy != "" {
		if o.AuditPolicy, err = filepath.Abs(o.AuditPolicy); err != nil {
			return o, err
		}
	}
	if o.Operator {
		if _, err := os.Stat(o.ManagerBinary); err != nil {
			return o, fmt.Errorf("the operator's program is missing, run make build first: %w", err)
		}
	}
	return o, nil
}

// Dir returns the absolute path of a sandbox's directory: dir, or the default directory for the name.
func Dir(name, dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "sandboxes", name), nil
}

func workingRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return binaries.FindRoot(dir)
}
