// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render resolves a DynamoGraphDeployment: it decides everything about it that needs no view of the nodes.
//
// Users write an image, a command and a number of GPUs for each component; Resolve fills in the rest. It is a pure function of the
// deployment, the ClusterTopology it names and the constraints frozen before, so the controllers, admission and a plan on a laptop get
// the same result, and the result changes only when somebody changes an input.
//
//	components:                       llm-frontend            1 pod a replica, free: not gated
//	  Frontend: {type frontend} ->    Service llm-frontend    8000
//	  Decode:                       llm-decode              4 pods a replica, one rack: gated
//	    replicas: 2                   Service llm-decode      9090, to leaders
//	    multinode: {nodeCount: 4}     Service llm-decode-pods headless
//	    packDomain: rack              pods llm-decode-0-0 (leader) ... llm-decode-1-3
//
// Three guarantees shape the code:
//
//   - A constraint is resolved once. The levels with which a graph was first resolved are frozen in its ScalingGroups and override today's
//     topology (topology.go), so no later edit of the topology moves or unpacks a running graph.
//   - A pod restarts only when the user's input for it changes. Until then a group keeps its stored templates (input.go), even when a new
//     version of the operator would render other ones. The revision is a hash of the templates alone (revision.go). BuildPod adds what
//     differs between pods, names and index in the replica, which the revision does not cover. Goldens in testdata hold the hashes.
//   - Names are the user's as long as they fit, else shortened with a hash (names.go). A pod's name never changes with the number of
//     replicas.
//
// A pod template is the user's podTemplate with defaults added, one file per subject: defaults by component type (defaults.go), command,
// ports and probes (container.go), env.go, resources.go, volumes.go, sidecar.go, metadata.go. Package framework adds what a multinode
// replica needs to start as one program. NotActedOn lists the fields that neither this package nor the controllers act on.
//
// The cost is linear in the size of the deployment: 25 multinode components take a few milliseconds, mostly hashing.
package render
