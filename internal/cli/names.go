// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/nearest"
)

// maxNames is the maximum number of names in an error.
const maxNames = 10

// NotFound returns an error that lists the existing names and suggests a similar name. what describes the missing object and ends with its
// name. none completes the sentence "there are ..." if no object of the kind exists.
func NotFound(what string, names []string, none string) error {
	if len(names) == 0 {
		return fmt.Errorf("%s not found; there are %s", what, none)
	}
	meant := ""
	if near := Nearest(what[strings.LastIndexAny(what, "/ ")+1:], names); near != "" {
		meant = fmt.Sprintf("; did you mean %s?", near)
	}
	slices.SortFunc(names, Natural)
	names = limit.First(names, maxNames, "")
	if meant != "" {
		return fmt.Errorf("%s not found%s There are: %s", what, meant, strings.Join(names, ", "))
	}
	return fmt.Errorf("%s not found; there are: %s", what, strings.Join(names, ", "))
}

// Nearest returns the name that the user probably meant by a word: a name that begins with the word, or that differs in few letters; "" if
// no name is similar.
func Nearest(word string, names []string) string {
	return nearest.Of(word, slices.SortedFunc(slices.Values(names), Natural))
}

// Natural compares names so that rack-2 comes before rack-10.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		xd, yd := digits(x), digits(y)
		if xd == 0 || yd == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		xn, yn := strings.TrimLeft(x[:xd], "0"), strings.TrimLeft(y[:yd], "0")
		if c := cmp.Or(cmp.Compare(len(xn), len(yn)), strings.Compare(xn, yn)); c != 0 {
			return c
		}
		x, y = x[xd:], y[yd:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits counts the digits at the beginning of a text.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
