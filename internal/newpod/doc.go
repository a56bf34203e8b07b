// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package newpod computes, for a pod that does not exist yet, the pod that the API server would store: with its defaults, and the additions
// of the admission plugins that are on by default. The stored pod determines whether the pod fits a node, and to which existing pods it is
// equal:
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
// Admission webhooks and plugins that are off by default are not considered.
package newpod
