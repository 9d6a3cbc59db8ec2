package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alecthomas/kingpin/v2"
)

// probeCommand declares the command that does one test now.
func probeCommand(app *kingpin.Application) func(ctx context.Context) int {
	app.Command("probe", "Do one test now and report it.")
	return func(context.Context) int {
		fmt.Fprintln(os.Stderr, "probe: not there yet")
		return exitUsage
	}
}
