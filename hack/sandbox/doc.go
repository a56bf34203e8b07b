// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a throw-away Kubernetes cluster on this machine: real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as plain processes, nodes that KWOK simulates, and the operator installed from the manifests of the repository. No
// container runtime is needed, except for real nodes (Options.Real). kubectl trellis sandbox in a clone, the demo, the scenarios of
// test/e2e and the benchmarks use it. The operator does not depend on it.
//
//	s, err := sandbox.Up(ctx, sandbox.Options{Dir: dir, Shape: simulated.Shape{Zones: 2}, Operator: true})
//	...
//	err = s.Down(ctx)
//
// A sandbox has one directory with its certificates, etcd's data, logs, pid files and kubeconfig. Its processes outlive the
// program that started them; Open finds them again by the pid files. Every sandbox has its own ports and etcd socket, so that
// several can run at the same time.
//
// Simulated nodes send no heartbeats and have no leases, and the grace period of the node controller is practically infinite: an idle
// sandbox writes nothing, however many nodes it has. A test stops a node with StopKubelet, which sets the conditions that the node
// controller would set after its grace period; taints, evictions and pod conditions follow as on a real cluster.
//
// Other systems can run next to the control plane as processes of the sandbox (Peers); package peers has KAI Scheduler, Grove,
// LeaderWorkerSet, Kueue and Karpenter.
//
// On Linux and as root, a sandbox can also have real nodes, whose pods run: each is a set of namespaces with a kubelet and containerd.
// Their network is a bridge in a network namespace of its own, without a route to or from the machine. The process node-switch has
// threads on both sides and forwards connections: from the API server to nodes and pods, and from kubelets and pods to the API server.
//
// Differences from a cluster: pods of simulated nodes run no containers and become Ready as soon as they are bound, Services have no
// network, and the manager is a process instead of a pod, with only the rights of its ServiceAccount.
package sandbox
