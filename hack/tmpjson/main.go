package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

func main() {
	for name, f := range map[string]func() (*worlds.Builder, error){"8": worlds.Small, "64": worlds.Medium, "two": worlds.TwoTopologies, "2000": worlds.Large, "demo": func() (*worlds.Builder, error) { return worlds.Demo(".") }} {
		b, err := f()
		if err != nil {
			fmt.Println(name, err)
			continue
		}
		dump(name, maps.SourceOf(b.World))
		if name == "demo" {
			file := filepath.Join(os.TempDir(), "plan.yaml")
			_ = os.WriteFile(file, []byte(worlds.Graph("default", "new-llm", "rack", 2, 3, 8)), 0o600)
			in, err := plan.Load(b.World, "default", []string{file}, genericiooptions.NewTestIOStreamsDiscard())
			if err != nil {
				panic(err)
			}
			dump("plan", &maps.Source{Input: in, Files: true})
		}
	}
}

func dump(name string, s *maps.Source) {
	s.Taken = worlds.Began.Add(90 * time.Minute)
	m, err := maps.Build(s, io.Discard)
	if err != nil {
		panic(err)
	}
	d, _ := json.Marshal(m)
	_ = os.MkdirAll("/tmp/mapjson", 0o755)
	_ = os.WriteFile("/tmp/mapjson/"+name+".json", d, 0o644)
	_ = os.WriteFile("/tmp/mapjson/"+name+".svg", []byte(m.SVG()), 0o644)
	for _, w := range m.Waiting {
		fmt.Println(name, w.Namespace, w.Graph, w.Tree, w.Reason, w.FreeingDomain, len(w.Freeing), w.Closest, w.Message)
	}
}
