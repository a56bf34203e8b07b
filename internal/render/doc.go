// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render resolves a DynamoGraphDeployment: it makes all decisions about the deployment that need no view of the nodes.
//
// Users write an image, a command and a number of GPUs for each component; Resolve fills in all other fields. Resolve is a pure function of
// the deployment, the ClusterTopology that the deployment names, and the constraints that were frozen before. The controllers, admission
// and the plan command on a laptop therefore get the same result, and the result changes only when an input changes.
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
//   - A constraint is resolved once. The ScalingGroups of a graph freeze the levels with which the graph was first resolved, and the frozen
//     levels override the current topology (package constraint). Later edits of the topology therefore neither move nor unpack a running
//     graph.
//   - A pod restarts only when the user's input for it changes. Until then, a scaling group keeps its stored templates (templateinput.go),
//     even if a new version of the operator would render different templates. The revision is a hash of the templates alone (revision.go).
//     BuildPod adds the values that differ between pods, such as the name and the index in the replica; the revision does not cover these
//     values. Golden files in testdata hold the hashes.
//   - Objects have the user's names as long as these fit. Longer names are shortened and get a hash (names.go). A pod's name never changes
//     with the number of replicas.
//
// A pod template is the user's podTemplate with defaults added, one file per subject: defaults by component type (defaults.go), command,
// ports and probes (container.go), env.go, resources.go, volumes.go, sidecar.go, metadata.go. Package framework adds the settings with
// which the pods of a multinode replica start as one program. NotActedOn lists the fields on which neither this package nor the controllers
// act.
//
// The cost is linear in the size of the deployment: 25 multinode components take a few milliseconds, mostly hashing.
package render
