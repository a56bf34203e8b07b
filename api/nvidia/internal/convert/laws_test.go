// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type failer interface{ Fatalf(string, ...any) }

// convertTo goes through raw JSON, as the API server does.
func convertTo(t failer, in object, version string) object {
	raw, err := JSON(encode(in), version)
	if err != nil {
		t.Fatalf("converting to %s: %v", version, err)
	}
	tree, err := decode(raw)
	if err != nil {
		t.Fatalf("reading what was converted: %v", err)
	}
	return tree.(object)
}

func same(t failer, what string, got, want any) {
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// TestThereAndBackIsTheIdentity is law (a): an object that no one edits returns as it was, annotations included.
func TestThereAndBackIsTheIdentity(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects := deployment(version)
			rapid.Check(t, func(t *rapid.T) {
				original := objects.Draw(t, "object")
				there := convertTo(t, original, Other(version))
				same(t, "there and back", convertTo(t, there, version), original)
				same(t, "and there again", convertTo(t, convertTo(t, there, version), Other(version)), there)
			})
		})
	}
	for name, original := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			if objectAt(original, "metadata") == nil {
				original["metadata"] = object{}
			}
			version := textAt(original, "apiVersion")[len(group):]
			there := convertTo(t, original, Other(version))
			same(t, "there and back", convertTo(t, there, version), original)
		})
	}
}

// TestAnyAnnotationSurvives is law (a) for objects whose memory another client wrote, or that were edited since.
func TestAnyAnnotationSurvives(t *testing.T) {
	annotations := []string{"no JSON", "[]", "{}", `{"pvcs":[{"name":"p"}]}`, `{"services":{"Worker":{"ingress":{"host":"h"},"replicas":5,"resources":{"limits":{"gpu":"4"}}}}}`,
		compressed + "x", `{"components":[{"name":"a.1"}],"trellis.dev/memory":{"from":"v1beta1"}}`, `{"trellis.dev/memory":{"from":"v1alpha1","ops":[{"path":[]},{"path":["a"]},7],"hash":7}}`,
		`{"trellis.dev/memory":{"from":"v1alpha1","ops":[{"path":["services","Worker","envs"],"value":[{"name":"A"}]}]}}`}
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects := deployment(version)
			rapid.Check(t, func(t *rapid.T) {
				original := objects.Draw(t, "object")
				setAnnotation(objectAt(original, "metadata"), AnnotationSpec, rapid.SampledFrom(annotations).Draw(t, "spec"))
				there := convertTo(t, original, Other(version))
				same(t, "there and back", convertTo(t, there, version), original)
			})
		})
	}
}

// TestEditedObjectsComeBack is law (a) after an edit. The memory is out of date and is written again; all else returns as it was, and the second
// time the memory does, too.
func TestEditedObjectsComeBack(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects := deployment(version)
			rapid.Check(t, func(t *rapid.T) {
				live := convertTo(t, objects.Draw(t, "object"), Other(version))
				edit(t, live["spec"])
				there := convertTo(t, live, version)
				back := convertTo(t, there, Other(version))
				same(t, "there and back", withoutMemories(back), withoutMemories(live))
				again := convertTo(t, back, version)
				same(t, "what the other version says", withoutMemories(again), withoutMemories(there))
				same(t, "the second time", convertTo(t, again, Other(version)), back)
			})
		})
	}
}

// withoutMemories is a copy of an object without the annotations that keep what the other version alone can say.
func withoutMemories(in object) object {
	out := clone(in).(object)
	for i := range parts {
		setAnnotation(objectAt(out, "metadata"), parts[i].annotation, "")
	}
	return out
}

// TestMemoryIsAFunctionOfTheSpec alternates edits in both versions. What is kept in the annotations does not grow with their number: it is what one
// conversion of the spec as it is now would keep, and it never holds another memory.
func TestMemoryIsAFunctionOfTheSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := deployment(rapid.SampledFrom([]string{Alpha, Beta}).Draw(t, "first version")).Draw(t, "object")
		for range rapid.IntRange(2, 12).Draw(t, "edits") {
			version := textAt(live, "apiVersion")[len(group):]
			edit(t, live["spec"])
			live = convertTo(t, live, Other(version))
			text := textAt(objectAt(objectAt(live, "metadata"), "annotations"), AnnotationSpec)
			m, err := readMemory(text, version)
			if err != nil {
				t.Fatalf("the memory %s", err)
			}
			if m != nil && m.raw != nil {
				t.Fatalf("a memory holds a memory: %s", text)
			}
			there := convertTo(t, live, version)
			written := len(encode(there["spec"])) + len(encode(live["spec"]))
			if m, _ := parseMemory(text, version); m != nil && len(encode(m.sparse))+len(encode(opsToJSON(m.ops))) > 4*written+256 {
				t.Fatalf("a memory of %d bytes for specs of %d", len(text), written)
			}
		}
	})
}

// TestEditsShowAndOnlyThey is law (b). What was created in one version and is edited in the other says, translated plainly, exactly what the edited
// object says: nothing edited is hidden by what is remembered, and nothing removed is back. And nothing else has changed.
func TestEditsShowAndOnlyThey(t *testing.T) {
	t.Run(Beta, func(t *testing.T) {
		objects := deployment(Alpha)
		rapid.Check(t, func(t *rapid.T) {
			original := objects.Draw(t, "object")
			live := convertTo(t, original, Beta)
			path := edit(t, live["spec"])
			dropDangling(live["spec"].(object)) // admission refuses such a name
			edited := convertTo(t, live, Alpha)
			plain := toBeta(edited["spec"].(object))
			forgiveSidecars(live["spec"].(object), plain)
			if path != nil {
				same(t, "the edit of "+path.String()+" in v1alpha1, seen from v1beta1", pruned(plain), pruned(live["spec"]))
			}
			changes := diff(original["spec"], edited["spec"])
			if path.scalar() && len(changes) > 1 {
				t.Fatalf("the edit of %s changed more: %+v", path, changes)
			}
		})
	})
	t.Run(Alpha, func(t *testing.T) {
		objects := deployment(Beta)
		rapid.Check(t, func(t *rapid.T) {
			original := objects.Draw(t, "object")
			live := convertTo(t, original, Alpha)
			path := edit(t, live["spec"])
			edited := convertTo(t, live, Beta)
			plainly := func(o object) object {
				if neverInAlpha(objectAt(o, "metadata")) {
					return toFreshAlpha(specOf(o))
				}
				return toAlpha(specOf(o), whole(specOf(live)))
			}
			plain := plainly(edited)
			before := keysOf(diff(plainly(original), convertTo(t, original, Alpha)["spec"]))
			if after := keysOf(diff(plain, live["spec"])); path.scalar() && !subset(after, before) {
				t.Fatalf("the edit of %s in v1beta1, seen from v1alpha1: %s", path, cmp.Diff(live["spec"], any(plain)))
			}
			changes := diff(original["spec"], edited["spec"])
			if path.scalar() && len(changes) > 1 {
				t.Fatalf("the edit of %s changed more: %+v", path, changes)
			}
		})
	})
}

// forgiveSidecars: v1alpha1 has no word for a frontend sidecar with more than its own sidecars have. That one is remembered.
func forgiveSidecars(live, plain object) {
	said := entries(plain)
	for name, c := range entries(live) {
		if _, ok := said[name]["frontendSidecar"]; !ok {
			delete(c, "frontendSidecar")
		}
	}
}

// pruned drops what is empty: v1alpha1 has no field for some of it.
func pruned(value any) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for key, child := range v {
			if child = pruned(child); !blank(child) || child == "" {
				out[key] = child
			}
		}
		return out
	case []any:
		out := []any{}
		for _, child := range v {
			out = append(out, pruned(child))
		}
		return out
	}
	return value
}
