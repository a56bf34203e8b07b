// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

// writesPolicy makes the API server log all writes of all users. Leases are left out, because they are renewed whatever is deployed.
// Reviews are left out, because they are not stored.
const writesPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io}, {group: authentication.k8s.io}, {group: authorization.k8s.io}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

const (
	// operatorUser is the operator's name in the audit log.
	operatorUser = "system:serviceaccount:trellis-system:trellis-controller-manager"
	// silence is the required time without writes for the graph: longer than the operator delays any write.
	silence = 10 * time.Second
	// silenceAgain is the interval at which the log is read.
	silenceAgain = time.Second
)

// Audited makes the API server of the cluster log all writes into the directory of the sandbox, for [Cluster.Writes].
func Audited(dir string) func(*sandbox.Options) {
	return func(o *sandbox.Options) { o.Audit, o.AuditPolicy = true, filepath.Join(dir, "audit.yaml") }
}

// WritePolicy writes the audit policy that [Audited] uses.
func WritePolicy(dir string) error {
	return os.WriteFile(filepath.Join(dir, "audit.yaml"), []byte(writesPolicy), 0o600)
}

// Write is one write request, as the API server logged it.
type Write struct {
	User, Verb string
	// Resource with its subresource: scalinggroups/status.
	Resource string
	// Refused means that the response was an error, and nothing was stored.
	Refused bool
}

// ByOperator reports whether the operator sent it.
func (w Write) ByOperator() bool { return w.User == operatorUser }

// auditEvent is the used part of a log entry.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// readWrites reads an audit log of [writesPolicy]: the operator's writes anywhere, and the writes of others in the graphs' namespace. That
// excludes the status updates of nodes. A last line without a line feed is incomplete and skipped.
func readWrites(log io.Reader) ([]Write, error) {
	var writes []Write
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return writes, nil
		}
		if err != nil {
			return nil, err
		}
		e := auditEvent{}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		w := Write{User: e.User.Username, Verb: e.Verb, Resource: e.ObjectRef.Resource, Refused: e.ResponseStatus.Code >= 400}
		if e.ObjectRef.Subresource != "" {
			w.Resource += "/" + e.ObjectRef.Subresource
		}
		if w.ByOperator() || e.ObjectRef.Namespace == namespace {
			writes = append(writes, w)
		}
	}
}

// writesSince reads the log from an offset on.
func (c *Cluster) writesSince(offset int64) ([]Write, error) {
	log, err := os.Open(c.box.AuditFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return readWrites(log)
}

// Writes creates one graph of several gangs in one rack each and returns all writes for it, by all users, until it is Ready and silence has
// passed. Then it checks the pods' hosts, and deletes all objects.
func (c *Cluster) Writes(ctx context.Context, gangs, podsPerGang int) ([]Write, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.followGraphs(ctx)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	before, err := os.Stat(c.box.AuditFile())
	if err != nil {
		return nil, err
	}
	if err := c.create(ctx, deployments(1, multinode(gangs, podsPerGang, hall.Rack))[0]); err != nil {
		return nil, err
	}
	if err := p.until(ctx, gangs*podsPerGang, 1, patience); err != nil {
		return nil, err
	}
	writes, err := c.untilSilent(ctx, before.Size())
	if err != nil {
		return nil, err
	}
	ask := hall.Ask{Name: "graph", Whole: hall.Cluster, Each: hall.Rack, Gangs: gangs, Pods: podsPerGang, GPUs: hall.GPUs}
	replica := func(pod *corev1.Pod) string { return "replica " + pod.Labels[render.LabelReplica] }
	if err := judgeGangs(c.shape, p.pods, ask, replica); err != nil {
		return nil, err
	}
	return writes, c.clear(ctx, p.pods)
}

// untilSilent waits until there was no write for silence, and returns the writes since an offset of the log.
func (c *Cluster) untilSilent(ctx context.Context, offset int64) ([]Write, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	writes, last := []Write(nil), time.Now()
	for time.Since(last) < silence {
		now, err := c.writesSince(offset)
		if err != nil {
			return nil, err
		}
		if len(now) != len(writes) {
			writes, last = now, time.Now()
		}
		if err := sleep(ctx, silenceAgain); err != nil {
			return nil, fmt.Errorf("waiting until nothing is written: %w", err)
		}
	}
	return slices.Clip(writes), nil
}
