// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages reads the commands of documentation pages, for tests that run them.
package pages

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var block = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// Commands returns the first block of shell commands of a page that contains a text. It fails if there is none.
func Commands(page, contains string) (string, error) {
	raw, err := os.ReadFile(page)
	if err != nil {
		return "", fmt.Errorf("reading a page: %w", err)
	}
	for _, found := range block.FindAllStringSubmatch(string(raw), -1) {
		if strings.Contains(found[1], contains) {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("%s has no commands with %q", page, contains)
}
