// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes checks on real kubelets what simulated nodes cannot show: make test-nodes.
//
// There is one sandbox for all specs, with four real nodes in two racks and a simulated one, which is cordoned. Pods run peer, which
// behaves like an inference server of several pods, or tools of busybox. No GPU, driver or network of a data center is involved: GPUs
// exist only by their names.
//
// Specs that break a node are Serial. What is left on the machine after all specs is compared with what was there before.
package nodes
