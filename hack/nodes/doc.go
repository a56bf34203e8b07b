// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes tests behavior that needs real kubelets and that simulated nodes cannot show: make test-nodes.
//
// All specs share one sandbox with four real nodes in two racks, a simulated node, which is cordoned, and LeaderWorkerSet. Specs of the
// operator in pods use a second sandbox. Pods run peer, which behaves like an inference server of several pods or like an engine's programs
// at their start, or tools of busybox. The image of the engines contains Python, OpenSSH and Open MPI from Debian packages, which are
// downloaded but not installed on this machine. No GPU, driver or data center network is involved: GPUs exist only as device names.
//
// Specs that break a node of the first sandbox are Serial. After all specs, the state of the machine is compared with the state before. If
// the test process is killed, a separate process ends its sandboxes.
package nodes
