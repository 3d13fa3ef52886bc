package main

import (
	"runtime/debug"
)

// VersionCommand prints the build.
type VersionCommand struct{}

// Run implements the command.
func (VersionCommand) Run(out *Output) error {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" {
			version = v
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if out.JSON {
		return out.Object(map[string]string{"version": version, "revision": revision})
	}
	out.Print("millrace %s %s", version, revision)
	return nil
}
