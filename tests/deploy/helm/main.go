// Renders a Helm chart with Helm's own engine: `helm template`, without a cluster.
//
//	render CHART [VALUES.yaml...]
//
// Later files of values win. What the chart's schema refuses is an error.
package main

import (
	"fmt"
	"os"
	"sort"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func render(path string, files []string) (map[string]string, error) {
	chart, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	values := chartutil.Values{}
	for _, file := range files {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, err
		}
		values = chartutil.CoalesceTables(more, values)
	}
	options := chartutil.ReleaseOptions{Name: "demo", Namespace: "models", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: render CHART [VALUES.yaml...]")
		os.Exit(2)
	}
	texts, err := render(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("---\n# Source: %s\n%s\n", name, texts[name])
	}
}
