// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Label keys that other programs read on pods. Their names and meanings are Dynamo's.
const (
	LabelSelector         = "nvidia.com/selector"
	LabelGraph            = "nvidia.com/dynamo-graph-deployment-name"
	LabelComponent        = "nvidia.com/dynamo-component"
	LabelNamespace        = "nvidia.com/dynamo-namespace"
	LabelComponentType    = "nvidia.com/dynamo-component-type"
	LabelSubComponentType = "nvidia.com/dynamo-sub-component-type"
	// LabelComponentClass is set on workers of every type if the deployment has an endpoint picker, whose pool selects workers by this
	// label.
	LabelComponentClass   = "nvidia.com/dynamo-component-class"
	LabelMetricsEnabled   = "nvidia.com/metrics-enabled"
	LabelBaseModelHash    = "nvidia.com/dynamo-base-model-hash"
	LabelDiscoveryBackend = "nvidia.com/dynamo-discovery-backend"
	LabelDiscoveryEnabled = "nvidia.com/dynamo-discovery-enabled"
)

// Label keys of Trellis. They identify a pod within its scaling group and replica.
const (
	LabelScalingGroup = "trellis.dev/scaling-group"
	LabelReplica      = "trellis.dev/replica"
	LabelPodIndex     = "trellis.dev/pod-index"
	LabelRevision     = "trellis.dev/revision"
	LabelRole         = "trellis.dev/role"
	LabelReplicaSize  = "trellis.dev/replica-size"
	// LabelGroupUID is the UID of the scaling group, on pods that the group does not own directly; see GroupOf.
	LabelGroupUID = "trellis.dev/scaling-group-uid"
)

// LabelKueueQueue on a deployment names the Kueue queue of its pods.
const LabelKueueQueue = "kueue.x-k8s.io/queue-name"

// AnnotationKueueQueue on a scaling group names the Kueue queue of its deployment. The key differs from Kueue's own key, because a scaling
// group inherits the annotations of its component.
const AnnotationKueueQueue = "trellis.dev/kueue-queue"

// PlacementGate is the scheduling gate that holds a gang's pods until the gang is placed.
const PlacementGate = "trellis.dev/placement"

// AnnotationGang on a pod names the gang with which the pod was released or created. The deployment's GraphPlacement uses the same gang
// name.
const AnnotationGang = "trellis.dev/gang"

// AnnotationAttempt on a pod is the replica's attempt for which the pod was released or created. The attempt counts how often the replica
// was placed. Pods from earlier versions of the operator do not have this annotation.
const AnnotationAttempt = "trellis.dev/attempt"

// AnnotationGangReplicas marks pods of a base gang that an earlier version of the operator released.
const AnnotationGangReplicas = "trellis.dev/gang-replicas"

// AnnotationRestart on a pod is the ID of the restart for which the pod was made. The key is Dynamo's.
const AnnotationRestart = "nvidia.com/restartAt"

// Names of roles.
const (
	RoleMain   = "main"
	RoleLeader = "leader"
	RoleWorker = "worker"
)
