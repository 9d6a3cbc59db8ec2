//go:build race

package race

// Enabled tells whether this was built with it.
const Enabled = true
