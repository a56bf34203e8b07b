// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience limits the waits of tests, on machines of any speed.
package patience

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// variable is the environment variable with a factor of Limit, for slow or busy machines.
	variable = "TRELLIS_TEST_PATIENCE"
	limit    = 5 * time.Minute
)

// Limit is the maximum time that a test waits for an event. It ends tests that hang and does not measure speed: no test may pass or fail by
// the speed of the machine.
func Limit() time.Duration {
	factor, err := strconv.ParseFloat(cmp.Or(os.Getenv(variable), "1"), 64)
	if err != nil || factor <= 0 {
		panic(fmt.Sprintf("%s=%s: want a positive number", variable, os.Getenv(variable)))
	}
	return time.Duration(factor * float64(limit))
}
