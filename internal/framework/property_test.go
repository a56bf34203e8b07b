// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces of scripts: the first list starts SGLang once, the second only mentions it.
var (
	starting = []string{
		"python3 -m dynamo.sglang --tp 8", "exec python3 -u -m dynamo.sglang", "bash -c 'python3 -m dynamo.sglang --x \"a b\"'",
		"if test -f x; then python3 -m dynamo.sglang; fi", "A=1 numactl -l python3.12 -m dynamo.sglang >log 2>&1 &", "(cd / && python3 -m dynamo.sglang)",
		"CMD=(python3 -m dynamo.sglang --tp 8); exec \"${CMD[@]}\"", "python3 \\\n  -m dynamo.sglang \\\n  --tp $TP", "eval \"python3 -m dynamo.sglang\"",
	}
	mentioning = []string{
		"# python3 -m dynamo.sglang", "echo \"python3 -m dynamo.sglang\"", "true # python3 -m dynamo.sglang", "N='python3 -m dynamo.sglang'",
		"printf '%s\\n' 'python3 -m dynamo.sglang é'", "prepare --note 'python3 -m dynamo.sglang'", "pkill -f dynamo.sglang", "ulimit -l unlimited",
		"cat <<EOF >note\npython3 -m dynamo.sglang\nEOF", "export A=$$(date) B=${C:-d} E=$((1 + 2))", "for f in *; do ls \"$f\"; done", "",
	}
)

// TestInsertingKeepsTheScript puts a marker behind every start, and finds the script unchanged when the markers are taken away.
func TestInsertingKeepsTheScript(t *testing.T) {
	const marker = " --marker 1"
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		starts := 0
		for range rapid.IntRange(1, 6).Draw(t, "lines") {
			if starts > 0 && rapid.Bool().Draw(t, "mentions") {
				lines = append(lines, rapid.SampledFrom(mentioning).Draw(t, "mention"))
				continue
			}
			starts++
			lines = append(lines, rapid.SampledFrom(starting).Draw(t, "start"))
		}
		script := strings.Join(rapid.Permutation(lines).Draw(t, "order"), "\n")
		got := insertFlags(script, []flag{{name: "--marker", value: "1"}})
		if strings.ReplaceAll(got, marker, "") != script {
			t.Fatalf("more than the flags changed:\n%s\nwas\n%s", got, script)
		}
		if n := strings.Count(got, "dynamo.sglang"+marker); n != starts || strings.Count(got, marker) != starts {
			t.Fatalf("%d markers behind the module, %d starts:\n%s", n, starts, got)
		}
	})
}

// TestAnyScriptIsRead: whatever the script is, flags are all that is added.
func TestAnyScriptIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom(starting), rapid.SampledFrom(mentioning), rapid.SampledFrom([]string{"'", "\"", "$(", ")", "<<E", "\\", "`", "é", " ", "\n", ";"}))
		script := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), "")
		if got := insertFlags(script, []flag{{name: "--marker", alone: true}}); strings.ReplaceAll(got, " --marker", "") != script {
			t.Fatalf("more than the flags changed:\n%s\nwas\n%s", got, script)
		}
	})
}
