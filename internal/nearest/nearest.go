// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the name that a misspelled word most likely stands for.
package nearest

import "strings"

// Of returns the name that a word most likely stands for: a name that begins with the word, or differs from it in few letters. Among
// equally near names, it returns the first. It returns "" if no name is near.
func Of(word string, names []string) string {
	word = strings.ToLower(word)
	best, least := "", 0
	for _, name := range names {
		lower := strings.ToLower(name)
		most := max(1, len(word)/3)
		d := most + 1
		if len(word) > 1 && strings.HasPrefix(lower, word) {
			d = 1
		}
		if abs(len(word)-len(lower)) <= most {
			d = min(d, Distance(word, lower))
		}
		if d <= most && d < len(lower) && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// Distance counts the steps that turn one word into another. A step inserts, deletes or replaces a letter, or swaps two adjacent letters.
func Distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
