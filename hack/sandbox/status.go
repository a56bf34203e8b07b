// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Status is the status of a sandbox.
type Status struct {
	Name, Dir, Kubeconfig string
	Provider              Provider
	Created               time.Time
	// Running says that Up has finished and every process runs.
	Running    bool
	Components []ComponentStatus
	// Nodes is the number of nodes in the cluster, NodesReady that of Ready nodes. Both are zero if the API server does not
	// respond; Problem says why.
	Nodes, NodesReady int
	Problem           string
}

// ComponentStatus is the status of a process.
type ComponentStatus struct {
	Name    string
	PID     int
	Running bool
	// Port is the port on 127.0.0.1; zero for etcd, which listens on a socket.
	Port int
	Log  string
}

// Status checks the processes and gets the nodes from the API server.
func (s *Sandbox) Status(ctx context.Context) Status {
	st := Status{
		Name: s.state.Name, Dir: s.dir, Kubeconfig: s.Kubeconfig(), Provider: s.state.Provider, Created: s.state.Created,
		Running: s.state.Ready,
	}
	for _, name := range s.expected() {
		c := ComponentStatus{Name: name, Port: s.port(name), Log: s.LogFile(name)}
		if p, err := proc.Load(s.pidFile(name)); err == nil {
			c.PID, c.Running = p.PID, p.Alive()
		}
		st.Running = st.Running && c.Running
		st.Components = append(st.Components, c)
	}
	if err := s.countNodes(ctx, &st); err != nil {
		st.Problem = fmt.Sprintf("counting nodes: %v", err)
	}
	return st
}

func (s *Sandbox) countNodes(ctx context.Context, st *Status) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	st.Nodes = len(nodes.Items)
	for i := range nodes.Items {
		if notUsable(&nodes.Items[i]) == "" {
			st.NodesReady++
		}
	}
	return nil
}

// expected are the names of all processes of a running sandbox.
func (s *Sandbox) expected() []string {
	all := slices.Concat(Components, s.realPrograms(), s.state.Programs)
	if s.state.Manager != nil {
		all = append(all, secretMount, DefaultManager)
	}
	return all
}

// NotRunning are the names of the expected processes that do not run.
func (s *Sandbox) NotRunning() []string {
	var names []string
	for _, name := range s.expected() {
		if p, err := proc.Load(s.pidFile(name)); err != nil || !p.Alive() {
			names = append(names, name)
		}
	}
	return names
}
