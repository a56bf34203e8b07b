// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package newpod makes of a pod that does not exist yet what the API server would store: its defaults, and what the admission plugins that
// are on by default add. Whether the pod fits a node, and whether it is alike to pods that exist, is decided by the pod as it is stored:
//
//	RuntimeClass gvisor {overhead: {memory: 2Gi}, scheduling: {nodeSelector: {sandbox: gvisor}}}
//	LimitRange          {default: {cpu: 4}, defaultRequest: {cpu: 2}}
//
//	as written                         as stored
//	  runtimeClassName: gvisor           runtimeClassName: gvisor, overhead: {memory: 2Gi}, nodeSelector: {sandbox: gvisor}
//	  limits: {nvidia.com/gpu: 1}        limits: {nvidia.com/gpu: 1, cpu: 4}, requests: {nvidia.com/gpu: 1, cpu: 2}
//	  hostNetwork, containerPort: 80     hostNetwork, containerPort: 80, hostPort: 80
//	                                     priority, tolerations of not-ready and unreachable nodes for 300 seconds
//
// Admission webhooks and plugins that a cluster has switched on are not known here.
package newpod
