package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// ModuleNames are the names of all modules, sorted.
func (c *Config) ModuleNames() []string { return slices.Sorted(maps.Keys(c.Modules)) }

// Hash is a key of the module's content: two modules have the same if and only if
// all their fields are the same. It is stable over reloads and restarts of one
// release; a release that adds a field may change it.
func (m *Module) Hash() string {
	data, err := json.Marshal(m)
	if err != nil { // a NaN in a list of buckets: no loaded module has one
		flat := *m
		flat.Congest = nil
		data = fmt.Appendf(nil, "%+v %+v", flat, m.Congest)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
