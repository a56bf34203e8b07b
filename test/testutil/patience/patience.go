// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience bounds the waits of tests, on machines of any speed.
package patience

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// variable of the environment with a factor of Limit, for slow or busy machines.
	variable = "TRELLIS_TEST_PATIENCE"
	limit    = 5 * time.Minute
)

// Limit is how long a wait for an event may take before the test fails. It ends tests that hang and is no measure of speed: no test may
// pass or fail by how fast the machine is.
func Limit() time.Duration {
	factor, err := strconv.ParseFloat(cmp.Or(os.Getenv(variable), "1"), 64)
	if err != nil || factor <= 0 {
		panic(fmt.Sprintf("%s=%s: want a positive number", variable, os.Getenv(variable)))
	}
	return time.Duration(factor * float64(limit))
}
