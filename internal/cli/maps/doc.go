// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maps draws the whole cluster as nested boxes: kubectl trellis map.
//
// [Read] takes a [Source] from a cluster and from files, [Build] makes a [Map] of it, and [Map.HTML] and [Map.SVG] draw that; all but Read
// are pure. Build computes nothing that another command computes: domains, amounts and pods are those of package tree, why something waits
// is that of package explain, and what a plan would do is that of package plan. So map, tree, explain and plan show the same numbers.
//
// The page is one file. Its data is one JSON blob; its script makes every element with createElement and textContent, never from markup, so
// that no name in a cluster can become code. A Content-Security-Policy with the hashes of script and style refuses everything else.
//
// The boxes are plain elements laid out by the browser with flex and grid, and no library: nested boxes of text are what CSS lays out, a
// treemap library would only compute positions, and the script stays below 30 kB. Consecutive GPUs of one pod are one element with lines
// drawn on it, so a page with 2,000 hosts of 8 GPUs has a few thousand elements and opens in well under a second.
//
// The SVG is drawn in Go without a browser, and the same map gives the same bytes.
package maps
