// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Label keys that other programs read on pods. Names and meaning are those DynamoGraphDeployment users know.
const (
	LabelSelector         = "nvidia.com/selector"
	LabelGraph            = "nvidia.com/dynamo-graph-deployment-name"
	LabelComponent        = "nvidia.com/dynamo-component"
	LabelNamespace        = "nvidia.com/dynamo-namespace"
	LabelComponentType    = "nvidia.com/dynamo-component-type"
	LabelSubComponentType = "nvidia.com/dynamo-sub-component-type"
	// LabelComponentClass is on the pods of workers of every type, where the deployment has an endpoint picker: it finds the workers by it.
	LabelComponentClass   = "nvidia.com/dynamo-component-class"
	LabelMetricsEnabled   = "nvidia.com/metrics-enabled"
	LabelBaseModelHash    = "nvidia.com/dynamo-base-model-hash"
	LabelDiscoveryBackend = "nvidia.com/dynamo-discovery-backend"
	LabelDiscoveryEnabled = "nvidia.com/dynamo-discovery-enabled"
)

// Label keys of our own. They say which pod of which replica a pod is.
const (
	LabelScalingGroup = "trellis.dev/scaling-group"
	LabelReplica      = "trellis.dev/replica"
	LabelPodIndex     = "trellis.dev/pod-index"
	LabelRevision     = "trellis.dev/revision"
	LabelRole         = "trellis.dev/role"
	LabelReplicaSize  = "trellis.dev/replica-size"
	// LabelGroupUID is the UID of the scaling group of a pod that another object than the group owns: see GroupOf.
	LabelGroupUID = "trellis.dev/scaling-group-uid"
)

// LabelKueueQueue on a deployment names the queue of Kueue that its pods wait in.
const LabelKueueQueue = "kueue.x-k8s.io/queue-name"

// AnnotationKueueQueue on a scaling group is that queue. It is no key of Kueue's: groups inherit annotations of their component, which
// name no queue.
const AnnotationKueueQueue = "trellis.dev/kueue-queue"

// PlacementGate is the scheduling gate that holds a gang's pods until the whole gang is placed.
const PlacementGate = "trellis.dev/placement"

// AnnotationGang names the gang with which a pod was released or created, as the GraphPlacement of its deployment has it.
const AnnotationGang = "trellis.dev/gang"

// AnnotationAttempt is the number of placements of the replica, up to the one with which a pod was released or created. Pods of earlier
// versions have none.
const AnnotationAttempt = "trellis.dev/attempt"

// AnnotationGangReplicas marks pods of the base gang that an earlier version released.
const AnnotationGangReplicas = "trellis.dev/gang-replicas"

// AnnotationRestart on a pod is the id of the restart it was made for, under the name users know.
const AnnotationRestart = "nvidia.com/restartAt"

// Names of roles.
const (
	RoleMain   = "main"
	RoleLeader = "leader"
	RoleWorker = "worker"
)
