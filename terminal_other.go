//go:build !unix

package main

import "io"

// terminalColumns knows no terminals on this system.
func terminalColumns(io.Writer) (int, bool) { return 0, false }
