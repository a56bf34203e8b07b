// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-k8s/trellis/hack/sandbox/filelock"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Names in the directory of a sandbox. Down removes only these, so that a wrong --dir deletes no other files.
const (
	stateFile      = "sandbox.json"
	kubeconfigFile = "kubeconfig"
	lockFile       = "lock"
	logDir         = "logs"
	pidDir         = "run"
	managerDir     = "manager"
	peersDir       = "peers"
	etcdDir        = "etcd"
	certDir        = "pki"
	confDir        = "conf"
	etcdSocket     = "etcd.sock"
	peerSocket     = "peer.sock"
	auditFile      = logDir + "/audit.log"
	nodesDir       = "nodes"
	nodeSocket     = "node.sock"
)

var contents = []string{kubeconfigFile, logDir, pidDir, managerDir, peersDir, etcdDir, certDir, confDir, etcdSocket, peerSocket,
	nodesDir, nodeSocket, stateFile, stateFile + ".tmp", lockFile}

// state is what later commands must know about a sandbox. It is a file in the directory of the sandbox.
type state struct {
	Name     string          `json:"name"`
	Assets   string          `json:"assets"`
	Provider Provider        `json:"engine"`
	Shape    simulated.Shape `json:"shape"`
	// NodesFile is set if the nodes come from a file.
	NodesFile string         `json:"nodesFile,omitempty"`
	Ports     map[string]int `json:"ports"`
	// Audit says that the API server logs the operator's requests.
	Audit bool `json:"audit,omitempty"`
	// AuditPolicy is set if the API server logs other requests instead.
	AuditPolicy string `json:"auditPolicy,omitempty"`
	// Ready is set last: if it is not set, Up did not finish.
	Ready bool `json:"ready"`
	// Manager is the configuration of the operator's manager; nil without the operator.
	Manager *managerSpec `json:"manager,omitempty"`
	// Real describes the real nodes; nil for none.
	Real *realState `json:"realNodes,omitempty"`
	// Programs are the names of the peers' programs in start order.
	Programs []string  `json:"programs,omitempty"`
	Created  time.Time `json:"created"`
}

// Sandbox is a handle to the sandbox of a directory.
type Sandbox struct {
	dir   string
	mu    sync.Mutex // guards state.Ports
	state state
	// programs are the programs of peers that this process started, by name.
	programs map[string]Program
}

// ErrNotFound says that a directory has no sandbox.
var ErrNotFound = errors.New("no sandbox")

// Open opens the sandbox of a directory.
func Open(dir string) (*Sandbox, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{dir: dir}
	data, err := os.ReadFile(s.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNotFound, dir)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &s.state); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.path(stateFile), err)
	}
	return s, nil
}

// Name is the name of the sandbox.
func (s *Sandbox) Name() string { return s.state.Name }

// Dir is the directory of the sandbox.
func (s *Sandbox) Dir() string { return s.dir }

// Kubeconfig is the path of the cluster administrator's kubeconfig.
func (s *Sandbox) Kubeconfig() string { return s.path(kubeconfigFile) }

// Assets is the directory of the control plane's programs, including kubectl.
func (s *Sandbox) Assets() string { return s.state.Assets }

// LogFile is the log file of a component, peer program or manager.
func (s *Sandbox) LogFile(name string) string { return s.path(logDir, name+".log") }

func (s *Sandbox) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s *Sandbox) pidFile(name string) string { return s.path(pidDir, name+".pid") }

func (s *Sandbox) save() error {
	s.mu.Lock()
	data, err := json.MarshalIndent(s.state, "", "  ")
	s.mu.Unlock()
	if err != nil {
		return err
	}
	tmp := s.path(stateFile + ".tmp")
	if err := writeFile(tmp, data); err != nil {
		return err
	}
	return os.Rename(tmp, s.path(stateFile))
}

// lock creates the directory and locks it against other commands. It is an error if the directory has files that
// do not belong to a sandbox.
func (s *Sandbox) lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	if err := mkdir(s.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !slices.Contains(contents, e.Name()) {
			return nil, fmt.Errorf("%s holds %q, which does not belong to a sandbox: choose a new or an empty directory", s.dir, e.Name())
		}
	}
	return filelock.Lock(ctx, s.path(lockFile), waiting)
}

// writeKubeconfig writes a kubeconfig for one user of the sandbox.
func (s *Sandbox) writeKubeconfig(file string, user *clientcmdapi.AuthInfo) error {
	return s.writeKubeconfigFor(&clientcmdapi.Cluster{Server: s.url(apiServer)}, file, user)
}

// writeKubeconfigFor writes a kubeconfig for a user and another address of the API server.
func (s *Sandbox) writeKubeconfigFor(cluster *clientcmdapi.Cluster, file string, user *clientcmdapi.AuthInfo) error {
	ca, err := os.ReadFile(s.path(caFile))
	if err != nil {
		return err
	}
	cluster.CertificateAuthorityData = ca
	name := "trellis-" + s.state.Name
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = cluster
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(s.path(file), data)
}

// url is the URL of a component that serves HTTPS.
func (s *Sandbox) url(component string) string {
	return fmt.Sprintf("https://127.0.0.1:%d", s.port(component))
}

func mkdir(dir string) error { return os.MkdirAll(dir, 0o700) }
