// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
)

// Exit is the error of a command that has already printed everything. Its value is the exit code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode returns the exit code of an error, and whether the error still has to be printed.
func ExitCode(err error) (code int, tell bool) {
	var exit Exit
	switch {
	case err == nil:
		return 0, false
	case errors.As(err, &exit):
		return int(exit), false
	}
	return 1, true
}
