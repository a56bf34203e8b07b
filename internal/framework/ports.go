// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

// Ports on which the programs of a multinode replica reach each other.
const (
	// distributedPort is the rendezvous port of the ranks of SGLang, and of vLLM without Ray.
	distributedPort = "29500"
	// rayPort is the port of the Ray head.
	rayPort = "6379"
	// dataRPCPort is the leader's port for data-parallel ranks of vLLM.
	dataRPCPort = "13445"
	// sshPort is the ssh port with which the leader of TensorRT-LLM starts the other ranks.
	sshPort = "2222"
)

// publishing is how many seconds a script waits before it looks up another pod for the first time. The pods of a replica start together,
// and their addresses are published a few seconds later. A DNS server that is asked earlier may cache the negative answer for 30 seconds.
const publishing = "5"
