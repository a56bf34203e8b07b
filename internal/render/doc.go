// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render resolves a DynamoGraphDeployment: everything about it that can be decided without looking at nodes.
//
// Users write little and mean much: a component is an image, a command and a number of GPUs, and the rest is understood. Resolve describes
// what is understood. It is a pure function of the deployment, the ClusterTopology it names and what was frozen before, so the same answer
// serves the controllers, admission and a plan on a laptop, and a change of its answer is a change that someone made.
//
//	components:                       llm-frontend            1 pod a replica, free: not gated
//	  Frontend: {type frontend} ->    Service llm-frontend    8000
//	  Decode:                       llm-decode              4 pods a replica, one rack: gated
//	    replicas: 2                   Service llm-decode      9090, to leaders
//	    multinode: {nodeCount: 4}     Service llm-decode-pods headless
//	    packDomain: rack              pods llm-decode-0-0 (leader) ... llm-decode-1-3
//
// Three promises shape the code:
//
//   - A constraint is resolved once. The levels a graph saw first are frozen into its ScalingGroups and win over today's topology
//     (topology.go), so no later edit of the topology moves or frees a running graph.
//   - A pod restarts only when what the user wrote for it changes. A group keeps its stored templates until then (input.go), also under a
//     version of the operator that would make other ones. The revision is a hash of the templates alone (revision.go); what differs from
//     pod to pod, its names and its place in the replica, is added by BuildPod and is no part of it. Goldens in testdata hold the hashes.
//   - Names are the user's as long as they fit, else shortened with a hash (names.go). A pod's name never changes with the number of
//     replicas.
//
// A pod template is the user's extraPodSpec with the gaps filled, one file a subject: defaults by component type (defaults.go), command,
// ports and probes (container.go), env.go, resources.go, volumes.go, sidecar.go, metadata.go. What a multinode replica needs to start as
// one program is package framework's. NotActedOn lists the fields that nothing here or in the controllers acts on.
//
// The cost is linear in the size of the deployment: 25 multinode components take a few milliseconds, most of it hashing.
package render
