// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a throw-away Kubernetes cluster on this machine: real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as plain processes, nodes that KWOK simulates, and the operator installed from the repository's own manifests. No
// container runtime is needed, except for real nodes (Options.Real). kubectl trellis sandbox in a clone, the demo, the scenarios of
// test/e2e and the benchmarks use it. The operator does not depend on it.
//
//	s, err := sandbox.Up(ctx, sandbox.Options{Dir: dir, Shape: simulated.Shape{Zones: 2}, Operator: true})
//	...
//	err = s.Down(ctx)
//
// Everything lives in one directory: certificates, etcd's data, logs, pid files, kubeconfig. The processes outlive the program that started
// them; Open finds them again through that directory. Every sandbox has ports and an etcd socket of its own, so several run side by side.
//
// Simulated nodes send no heartbeats and own no leases, and the node controller waits practically for ever before it calls a silent
// node dead: an idle sandbox writes nothing, however many nodes it has. A test ends a node with StopKubelet, which says at once what the
// node controller would have said after its grace period; taints, evictions and pod conditions follow as on a real cluster.
//
// Other systems can run alongside the control plane as processes of the sandbox (Peers); package peers has KAI Scheduler, Grove and
// LeaderWorkerSet.
//
// Alongside them there may be real nodes, whose pods run, on Linux and for root: each is a set of namespaces with a kubelet and containerd.
// Their network is a bridge in a namespace of its own. No route leads there from the machine, and none leads out: a process with threads on
// both sides, node-switch, takes the API server's connections in and those of kubelets and pods to the API server out.
//
// Differences to a cluster: pods of simulated nodes run no containers and become Ready as soon as they are bound, Services have no
// network, and the manager is a process instead of a pod, with the rights of its ServiceAccount only.
package sandbox
