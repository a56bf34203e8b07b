// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// incompressible is text that gzip cannot make smaller than its base64.
func incompressible(size int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"
	random := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	for range size {
		out.WriteByte(digits[random.IntN(len(digits))])
	}
	return out.String()
}

func TestLargeMemories(t *testing.T) {
	graph := func(size int) object {
		return alphaGraph(t, fmt.Sprintf(`{W: {ingress: {enabled: true, host: %q}}}`, incompressible(size)))
	}
	packed := convertTo(t, graph(20_000), Beta)
	if text := textAt(objectAt(objectAt(packed, "metadata"), "annotations"), AnnotationSpec); !strings.HasPrefix(text, compressed) {
		t.Errorf("a memory of 20 kB is not compressed: %.60s", text)
	}
	same(t, "there and back", convertTo(t, packed, Alpha), graph(20_000))
	if err := Fits(encode(graph(20_000))); err != nil {
		t.Errorf("20 kB: %v", err)
	}

	in := graph(300_000)
	out := convertTo(t, in, Beta)
	if size := sizeOf(objectAt(objectAt(out, "metadata"), "annotations")); size > MaxAnnotations {
		t.Errorf("annotations of %d bytes, which the API server refuses", size)
	}
	if err := Fits(encode(in)); err == nil || !strings.Contains(err.Error(), "metadata.annotations") {
		t.Errorf("300 kB fit: %v", err)
	}
	mark := textAt(objectAt(objectAt(out, "metadata"), "annotations"), AnnotationSpec)
	if !Dropped(map[string]string{AnnotationSpec: mark}, Beta) || Dropped(map[string]string{AnnotationSpec: mark}, Alpha) {
		t.Errorf("nothing says that the memory was dropped: %.200s", mark)
	}
	withStatus := graph(20_000)
	setAnnotation(objectAt(withStatus, "metadata"), "a", strings.Repeat("x", MaxAnnotations-40_000))
	withStatus["status"] = object{"services": []any{incompressible(40_000)}} // no status of v1beta1 says that
	kept := objectAt(objectAt(convertTo(t, withStatus, Beta), "metadata"), "annotations")
	if text := textAt(kept, AnnotationSpec); text == "" || Dropped(map[string]string{AnnotationSpec: text}, Beta) || textAt(kept, AnnotationStatus) != "" {
		t.Errorf("the memory of the status is not dropped before that of the spec: %.100s", text)
	}
	beside := graph(20_000)
	setAnnotation(objectAt(beside, "metadata"), "kubectl.kubernetes.io/last-applied-configuration", strings.Repeat("x", 250_000))
	if err := Fits(encode(beside)); err == nil {
		t.Error("20 kB fit beside 250,000 bytes of another annotation")
	}
}

func TestProblem(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "{}": "", `{"pvcs":[]}`: "", "x": "is not JSON", "[]": "is not a JSON object", compressed + "!": "cannot be decompressed",
		`{"trellis.dev/memory":{"from":"v1beta1"}}`: `remembers "v1beta1", want "v1alpha1"`,
	} {
		got := Problem(map[string]string{AnnotationSpec: text}, Beta)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// gzipped is a text as it stands in an annotation that is compressed.
func gzipped(text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return compressed + base64.StdEncoding.EncodeToString(out.Bytes())
}

// What asks for more work than a user can need is no memory. Of such a one nothing is taken over, and the text returns as it was.
func TestMemoriesAreBounded(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"labels":`, n) + "1" + strings.Repeat("}", n) }
	lists := func(n int) string { return "[" + strings.Repeat("[],", n-2) + "[]]" }
	many := func(n int) string {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d":1`, i)
		}
		return `{"services":{"W":{` + strings.Join(fields, ",") + "}}}"
	}
	ops := func(ops ...string) string {
		return `{"trellis.dev/memory":{"from":"v1alpha1","ops":[` + strings.Join(ops, ",") + `]}}`
	}
	long := ops(`{"path":[` + strings.Repeat(`"a",`, maxDepth) + `"a"],"value":1}`)
	for _, test := range []struct{ text, want string }{
		{deep(maxDepth), ""},
		{deep(maxDepth + 1), "is nested deeper than 100 levels"},
		{ops(`{"path":["a"],"value":` + deep(maxDepth) + `}`), "is nested deeper than 100 levels"},
		{long, "is nested deeper than 100 levels"},
		{many(maxChanges), ""},
		{many(maxChanges + 1), "holds 2049 changes, of which 2048 are allowed"},
		{ops(slices.Repeat([]string{`{"path":["a"]}`}, maxChanges+1)...), "holds 2049 changes, of which 2048 are allowed"},
		{`{"pvcs":[{"name":"p","size":"1e12"}],"priorityClassName":"7e1234567"}`, ""},
		{`{"pvcs":` + lists(maxNodes/2) + "}", ""},
		{`{"pvcs":` + lists(maxNodes/2+1) + "}", "holds more than 65536 values"},
		{`{"junk":` + lists(maxNodes/2+1) + "}", "holds more than 65536 values"},
		{gzipped(`{"junk":` + lists(maxText/3-10) + "}"), "holds more than 65536 values"},
		{gzipped(`{"junk":"` + strings.Repeat("a", maxText) + `"}`), "decompresses to more than 1048576 bytes"},
		{`{"junk":[1}`, "is not JSON"},
		{`{"pvcs":[{"name":"p","size":"1e-9000000"}]}`, `holds a quantity that no resource can have, "1e-9000000"`},
		{`{"pvcs":[{"name":"p","size":1E9000}]}`, "holds a quantity"},
		{`{"services":{"W":{"resources":{"limits":{"cpu":"1e+999"}}}}}`, "holds a quantity"},
		{ops(`{"path":["services","W","extraPodSpec","overhead","cpu"],"value":"1e999"}`), "holds a quantity"},
		{`{"pvcs":[{"name":"p","size":"` + strings.Repeat("1", 257) + `"}]}`, "holds a quantity"},
	} {
		got := Problem(map[string]string{AnnotationSpec: test.text}, Beta)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%.80s: %q, want %q", test.text, got, test.want)
		}
		if test.want == "" {
			continue
		}
		in := betaGraph(t, `[{name: W}]`)
		setAnnotation(objectAt(in, "metadata"), AnnotationSpec, test.text)
		out := convertTo(t, in, Alpha)
		if spec := objectAt(out, "spec"); len(spec) != 1 || spec["services"] == nil {
			t.Errorf("%.80s: taken over: %.200v", test.text, spec)
		}
		same(t, "there and back", convertTo(t, out, Beta), in)
	}
}

// What would be no memory when it is read is refused when it is written.
func TestFitsWhatIsRead(t *testing.T) {
	in := alphaGraph(t, `{W: {}}`)
	pvcs := make([]any, 1)
	pvcs[0] = object{"name": "p", "size": "1e999"}
	objectAt(in, "spec")["pvcs"] = pvcs
	if err := Fits(encode(in)); err == nil || !strings.HasPrefix(err.Error(), "metadata.annotations: what v1beta1 cannot say of the spec") {
		t.Errorf("got %v", err)
	}
	setAnnotation(objectAt(in, "metadata"), AnnotationSpec, "x") // ignored
	pvcs[0] = object{"name": "p", "size": "1Gi"}
	if err := Fits(encode(in)); err != nil {
		t.Error(err)
	}
}

// Replicas are written in v1beta1 and an image in v1alpha1, in turn, as an autoscaler and a pipeline do. What v1alpha1 alone can say is kept, and the
// annotation stays as small as it was.
func TestMemoryOfEditsInTurnStaysSmall(t *testing.T) {
	in := alphaGraph(t, `{W: {envs: [{name: E, value: "1"}], extraPodSpec: {mainContainer: {image: x}}}}`)
	objectAt(in, "spec")["pvcs"] = []any{object{"name": "p", "create": true}}
	stored, first := convertTo(t, in, Beta), 0
	for i := range 20 {
		listAt(objectAt(stored, "spec"), "components")[0].(object)["replicas"] = json.Number(strconv.Itoa(i + 2))
		alpha := convertTo(t, stored, Alpha)
		worker := objectAt(objectAt(objectAt(alpha, "spec"), "services"), "W")
		objectAt(objectAt(worker, "extraPodSpec"), "mainContainer")["image"] = fmt.Sprintf("x:%02d", i)
		stored = convertTo(t, alpha, Beta)
		size := len(textAt(objectAt(objectAt(stored, "metadata"), "annotations"), AnnotationSpec))
		if first == 0 {
			first = size
		}
		if size > first {
			t.Fatalf("%d bytes after %d turns, %d after the first", size, i+1, first)
		}
	}
	if pvcs := listAt(objectAt(convertTo(t, stored, Alpha), "spec"), "pvcs"); len(pvcs) != 1 {
		t.Errorf("the claim is lost: %v", pvcs)
	}
}

// A large object allows fewer trials, and a small one all.
func TestTrials(t *testing.T) {
	if got := trialsFor(object{"a": []any{"b"}}); got != maxTrials {
		t.Errorf("%d trials for three values", got)
	}
	if got := trialsFor(make([]any, maxWork/10)); got != 9 {
		t.Errorf("%d trials for a tenth of the work", got)
	}
}

// FuzzMemory converts an object with any two annotations. There and back is the identity, whatever they hold.
func FuzzMemory(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", compressed, `{"services":{"W":{"envs":null}}}`, `{"trellis.dev/memory":{"from":"v1alpha1","ops":[{"path":["services","W"],"was":"x"}],"raw":""}}`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, spec, status string) {
		in := betaGraph(t, `[{name: W, podTemplate: {spec: {containers: [{name: main, env: [{name: A}]}]}}}]`)
		in["status"] = object{"state": "pending"}
		setAnnotation(objectAt(in, "metadata"), AnnotationSpec, strings.ToValidUTF8(spec, "?"))
		setAnnotation(objectAt(in, "metadata"), AnnotationStatus, strings.ToValidUTF8(status, "?"))
		own := func(text string) bool { m, _ := readMemory(text, Alpha); return m.own() } // such a one is written again
		if own(spec) || own(status) {
			return
		}
		if sizeOf(objectAt(objectAt(in, "metadata"), "annotations")) < MaxAnnotations/4 {
			same(t, "there and back", convertTo(t, convertTo(t, in, Alpha), Beta), in)
		}
	})
}
