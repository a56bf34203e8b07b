// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strconv"
	"time"
)

// mpiPort is the port at which the ranks of an MPI job meet.
const mpiPort = "29600"

// mpiRank runs a rank that mpirun has started, over ssh in all pods but the first. Rank 0 leads. The first rank of each pod serves the
// state.
func mpiRank([]string) error {
	rank, ranks := os.Getenv("OMPI_COMM_WORLD_RANK"), os.Getenv("OMPI_COMM_WORLD_SIZE")
	size, err := strconv.Atoi(ranks)
	if err != nil || rank == "" {
		return errors.New("mpirun has not started this rank")
	}
	<-time.After(durationOf("IMPORT", 2*time.Second))
	s := newState(os.Getenv("TRELLIS_LEADER_ADDRESS"), mpiPort, rank, size)
	if rank == "0" {
		s.serve(mpiPort)
	}
	if os.Getenv("OMPI_COMM_WORLD_LOCAL_RANK") == "0" {
		s.serve(statePort)
	}
	if rank != "0" {
		go s.follow()
	}
	awaitEnd()
	return nil
}
