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

// publishing is how many seconds a script waits before it looks up another pod for the first time. The pods of a replica start together,
// and the address of each is published a few seconds later. A DNS server that is asked before may cache for 30 seconds that there is none.
const publishing = "5"
