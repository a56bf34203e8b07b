// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes checks on real kubelets what simulated nodes cannot show: make test-nodes.
//
// There is one sandbox for all specs, with four real nodes in two racks, a simulated one, which is cordoned, and LeaderWorkerSet. Specs of
// the operator in pods have a second one. Pods run peer, which behaves like an inference server of several pods or like the programs of an
// engine at its start, or tools of busybox. The image of the engines has Python, OpenSSH and Open MPI from packages of Debian, which are
// downloaded and not installed. No GPU, driver or network of a data center is involved: GPUs exist only by their names.
//
// Specs that break a node of the first sandbox are Serial. What is left on the machine after all specs is compared with what was there
// before. A run that is killed has its sandboxes ended by a process of their own.
package nodes
