// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumes applies the kube-scheduler's rules about the volumes of a pod: where a bound volume can be used, where a class that waits
// for its first consumer can provision a volume, where a required driver is installed, how many volumes a node attaches, and which pods may
// use a claim. It implements a [topology.Binder]. It follows the plugins VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits
// of Kubernetes 1.37, for volumes that are used through claims.
//
// # Idea
//
// Most rules are determined before anything is placed: an unusable claim keeps its pods off every node, and a volume keeps its pods off the
// nodes outside its affinity. The rule of the shape ([topology.Rule]) covers these cases, so domain counts include them. Rules that depend
// on other pods of the plan are checked pod by pod:
//
//   - pods that share an unbound claim go to nodes that can use the volume of the first pod: the volume that this pod chooses, or a volume
//     in the topology of the driver;
//   - the volumes of the plan's pods count against the volume limits of their nodes;
//   - a ReadWriteOncePod claim has one pod.
//
// Volumes of in-tree drivers that CSI migration converts to CSI volumes are not counted. Attachments that no pod uses any more are not
// counted either.
package volumes
