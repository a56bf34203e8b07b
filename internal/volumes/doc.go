// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumes counts what the kube-scheduler asks of the volumes of a pod: where a bound volume can be used, where a class that waits
// for its first consumer can provide one, where a required driver is installed, how many volumes a node attaches, and who may use a claim.
// It is a [topology.Binder]. The semantics are those of the plugins VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits of
// Kubernetes 1.37, for volumes that are used through claims.
//
// # Idea
//
// Most of it is known of a claim before anything is placed: a claim that cannot be used keeps its pods off every node, and a volume those
// off the nodes that its affinity leaves out. That is the rule of the shape ([topology.Rule]), and counts in domains. What depends on
// other pods of the plan is asked pod by pod:
//
//   - pods that share a claim without a volume go to nodes that share what the first of them chooses: the volume, or the topology of its
//     driver;
//   - the volumes of the plan's pods are attached to their nodes;
//   - a ReadWriteOncePod claim has one pod.
//
// Not counted are volumes of in-tree drivers that CSI migration turns into those of a CSI driver, and attachments that no pod uses any
// more.
package volumes
