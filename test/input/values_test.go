// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// raw is a value as it is sent. Not all of it could be said by a value of Go: half of a surrogate pair, for example.
type raw = json.RawMessage

const long = 70_000

// texts that are odd somewhere: in a label, a name, a shell, a page, a path, a log line, a selector, a quantity, a template.
var texts = []string{
	`""`, `"x"`, `" "`, `"a b"`, `"-"`, `"A_b.C-1"`, `"\u0000"`, `"a\nb"`, `"\u202eabc"`, `"\ud800"`, `"é\u0301😀"`, `"\ufeff"`, `"٣"`,
	`"../../etc/passwd"`, `"/"`, `"$(HOME)"`, `"'; exit 1 #"`, `"<script>alert(1)</script>"`, `"{{.Name}}"`, `"%s%n"`, `"a=b,c!=d"`, `"1"`, `"-1"`, `"1e9"`, `"1Gi"`,
	`"50%"`, `"true"`, `"null"`, `"*"`, `"a/b/c"`, `"http://[::1]:x"`, `"2000-01-01T00:00:00Z"`, `"10s"`,
}

// values to try at a place of this schema: those it takes and those it should refuse. The first is one that it takes.
func values(s *schema) []raw {
	out := []raw{valid(s)}
	add := func(all ...string) {
		for _, one := range all {
			out = append(out, raw(one))
		}
	}
	switch {
	case s.XIntOrString:
		add(texts...)
		add(numbers(s)...)
		add("true", "{}", "[]")
	case s.Type == "string":
		for _, one := range s.Enum {
			add(string(one.Raw))
		}
		add(byPattern(s)...)
		add(byLength(s)...)
		add(texts...)
		add("1", "true", "{}", "[]")
	case s.Type == "integer" || s.Type == "number":
		add(numbers(s)...)
		add(`"1"`, "true", "{}", "[]")
	case s.Type == "boolean":
		add("true", "false", `"true"`, "0", "{}", "[]")
	case s.Type == "array":
		item := string(valid(s.Items.Schema))
		add("[]", "["+item+"]", "["+item+","+item+"]", "[null]", "{}", `"x"`, "0", "["+strings.Repeat(item+",", 64)+item+"]")
	default:
		add("{}", "[]", `"x"`, "0", "true")
		if s.XPreserveUnknownFields == nil {
			break
		}
		add(`{"":1}`, `{"a":null}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"../x"}}`, strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		child := string(valid(s.AdditionalProperties.Schema))
		for _, key := range texts {
			add("{" + key + ":" + child + "}")
		}
		add(`{"`+strings.Repeat("a", 300)+`":`+child+"}", `{"a":null}`)
	}
	add("null")
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(v raw) bool { was := seen[string(v)]; seen[string(v)] = true; return was })
}

func numbers(s *schema) []string {
	out := []string{"0", "1", "-1", "1.5", "1e30", "2147483647", "2147483648", "-2147483649", "9007199254740991", "9007199254740993", "9223372036854775807", "9223372036854775808", "-0", "1.0"}
	for _, bound := range []*float64{s.Minimum, s.Maximum} {
		if bound != nil && math.Abs(*bound) < 1<<53 {
			for _, d := range []float64{-1, 0, 1} {
				out = append(out, strconv.FormatFloat(*bound+d, 'f', -1, 64))
			}
		}
	}
	return out
}

func byLength(s *schema) []string {
	lengths := []int64{300, long}
	if s.MaxLength != nil && *s.MaxLength < long {
		lengths = append(lengths, *s.MaxLength, *s.MaxLength+1)
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		lengths = append(lengths, *s.MinLength-1, *s.MinLength)
	}
	var out []string
	for _, n := range lengths {
		out = append(out, `"`+strings.Repeat("a", int(n))+`"`)
	}
	return out
}

// byPattern are texts that match, of different seeds.
func byPattern(s *schema) []string {
	if s.Pattern == "" {
		return nil
	}
	var out []string
	for seed := range 8 {
		text := rapid.StringMatching(s.Pattern).Example(seed)
		quoted, err := json.Marshal(text)
		if err == nil && len(text) < 1000 {
			out = append(out, string(quoted))
		}
	}
	return out
}

// candidates for a text that must match a pattern.
var candidates = []string{"a", "1", "1Gi", "rack", "2000-01-01T00:00:00Z", "a/b", "10s", "True", "example.com/a"}

// valid is the simplest value that the schema takes, as far as it reports it without CEL.
func valid(s *schema) raw {
	if s.Default != nil {
		return s.Default.Raw
	}
	if len(s.Enum) > 0 {
		return s.Enum[0].Raw
	}
	switch {
	case s.XIntOrString:
		return raw("1")
	case s.Type == "string":
		quoted, _ := json.Marshal(validText(s))
		return quoted
	case s.Type == "integer" || s.Type == "number":
		n := 1.0
		if s.Minimum != nil {
			n = max(n, *s.Minimum)
		}
		if s.Maximum != nil {
			n = min(n, *s.Maximum)
		}
		return raw(strconv.FormatFloat(n, 'f', -1, 64))
	case s.Type == "boolean":
		return raw("true")
	case s.Type == "array":
		n := int64(1)
		if s.MinItems != nil {
			n = max(n, *s.MinItems)
		}
		return raw("[" + strings.TrimSuffix(strings.Repeat(string(valid(s.Items.Schema))+",", int(n)), ",") + "]")
	}
	return validObject(s)
}

func validText(s *schema) string {
	if s.Format == "date-time" {
		return "2000-01-01T00:00:00Z"
	}
	fits := func(text string) bool {
		return (s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(text)) && (s.MinLength == nil || int64(len(text)) >= *s.MinLength)
	}
	for _, text := range candidates {
		if fits(text) {
			return text
		}
	}
	if s.Pattern != "" {
		return rapid.StringMatching(s.Pattern).Example(1)
	}
	return strings.Repeat("a", int(*s.MinLength))
}

func validObject(s *schema) raw {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if child := s.Properties[name]; slices.Contains(s.Required, name) {
			fields = append(fields, fmt.Sprintf("%q:%s", name, valid(&child)))
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		fields = append(fields, `"key":`+string(valid(s.AdditionalProperties.Schema)))
	}
	return raw("{" + strings.Join(fields, ",") + "}")
}
