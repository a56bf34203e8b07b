// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

// Ports at which the programs of a multinode replica reach each other.
const (
	// distributedPort is where ranks of SGLang, and of vLLM without Ray, meet.
	distributedPort = "29500"
	// rayPort is where vLLM with Ray joins its cluster.
	rayPort = "6379"
	// dataRPCPort is where data-parallel ranks of vLLM reach the leader.
	dataRPCPort = "13445"
	// sshPort is where the leader of TensorRT-LLM starts the other ranks.
	sshPort = "2222"
)
