// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

func opsToJSON(ops []op) []any {
	out := make([]any, len(ops))
	for i, o := range ops {
		entry := object{"path": fromTexts(o.path)}
		if o.was != "" {
			entry["was"] = o.was
		}
		switch {
		case o.order != nil:
			entry["order"] = fromTexts(o.order)
		case !o.gone:
			entry["value"] = o.value
		}
		out[i] = entry
	}
	return out
}

// opsFromJSON reads operations, and skips malformed entries.
func opsFromJSON(list []any) []op {
	var out []op
	for _, element := range list {
		entry, _ := element.(object)
		path, ok := toTexts(entry["path"])
		if !ok {
			continue
		}
		o := op{path: path, was: textAt(entry, "was")}
		if order, ok := toTexts(entry["order"]); ok {
			o.order = order
		} else if value, ok := entry["value"]; ok {
			o.value = value
		} else {
			o.gone = true
		}
		out = append(out, o)
	}
	return out
}

func fromTexts(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

func toTexts(value any) ([]string, bool) {
	list, ok := value.([]any)
	out := make([]string, len(list))
	for i, element := range list {
		text, isText := element.(string)
		ok = ok && isText
		out[i] = text
	}
	return out, ok
}
