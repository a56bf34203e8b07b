// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

// Ports for the communication between the programs of a multinode replica.
const (
	// distributedPort is the port on which the ranks of SGLang connect to each other, and also the ranks of vLLM without Ray.
	distributedPort = "29500"
	// rayPort is the port of the Ray head.
	rayPort = "6379"
	// dataRPCPort is the leader's port for vLLM's data-parallel ranks.
	dataRPCPort = "13445"
	// sshPort is the ssh port through which the leader of a TensorRT-LLM replica starts the other ranks.
	sshPort = "2222"
)

// publishing is the number of seconds that a script waits before its first lookup of another pod's name. The pods of a replica start
// together, and their addresses are published a few seconds later. If a DNS server is queried earlier, it may cache the negative answer for
// 30 seconds.
const publishing = "5"
