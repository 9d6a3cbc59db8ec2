package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func replace(t *testing.T, path, text string) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	path := filepath.Join(write(t, map[string]string{"c.yml": "modules: {one: {}}"}), "c.yml")
	now := time.Unix(1000, 0)
	s, err := NewStore([]string{path}, WithClock(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	first := s.Current()
	if st := s.Status(); !st.Successful || st.Attempts != 1 || st.Failures != 0 || !st.LastSuccess.Equal(now) || st.Err != nil {
		t.Errorf("after the first load: %+v", st)
	}

	now = time.Unix(2000, 0)
	replace(t, path, "modules: {one: {size: 1}}")
	err = s.Reload()
	var mistakes Errors
	if !errors.As(err, &mistakes) || len(mistakes) != 1 || mistakes[0].Key != "modules.one.size" {
		t.Errorf("reload of a bad file: %v", err)
	}
	if s.Current() != first {
		t.Error("a failed reload changed the configuration")
	}
	if st := s.Status(); st.Successful || st.Attempts != 2 || st.Failures != 1 || !st.LastSuccess.Equal(time.Unix(1000, 0)) || st.Err == nil {
		t.Errorf("after a failed reload: %+v", st)
	}

	now = time.Unix(3000, 0)
	replace(t, path, "modules: {two: {}}")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := s.Current().ModuleNames(); len(got) != 1 || got[0] != "two" {
		t.Errorf("modules are %v", got)
	}
	if first.Modules["one"] == nil || len(first.Modules) != 1 {
		t.Error("a reload changed the old configuration, which probes may still use")
	}
	if st := s.Status(); !st.Successful || st.Attempts != 3 || st.Failures != 1 || !st.LastSuccess.Equal(now) || st.Err != nil {
		t.Errorf("after a reload: %+v", st)
	}
}

// TestStoreGlob: a reload sees files that have come since.
func TestStoreGlob(t *testing.T) {
	dir := write(t, map[string]string{"a.yml": "modules: {one: {}}"})
	s, err := NewStore([]string{filepath.Join(dir, "*.yml")})
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "b.yml"), "modules: {two: {}}")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := s.Current().ModuleNames(); len(got) != 2 {
		t.Errorf("modules are %v", got)
	}
}

// TestReloadKeepsHash: load results are kept by this key, and live on over a
// reload that did not change their module.
func TestReloadKeepsHash(t *testing.T) {
	path := filepath.Join(write(t, map[string]string{"c.yml": "modules: {one: {}, two: {}}"}), "c.yml")
	s, err := NewStore([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	one, two := s.Current().Modules["one"].Hash(), s.Current().Modules["two"].Hash()
	replace(t, path, "modules: {two: {size: 101}, one: {size: 100}}")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if s.Current().Modules["one"].Hash() != one || s.Current().Modules["two"].Hash() == two || one == two {
		t.Error("hashes do not follow the content")
	}
}

func TestStoreBadStart(t *testing.T) {
	s, err := NewStore([]string{filepath.Join(t.TempDir(), "missing.yml")})
	if err == nil || s != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestStoreWithoutFiles(t *testing.T) {
	s, err := NewStore(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := s.Current().ModuleNames(); len(got) != 1 || got[0] != DefaultModuleName {
		t.Errorf("modules are %v", got)
	}
}

// TestStoreRace reloads good and bad files from several sides while others read.
// Whatever is current is always one whole file: size and count belong together.
func TestStoreRace(t *testing.T) {
	path := filepath.Join(write(t, map[string]string{"c.yml": "modules: {m: {size: 100, count: 100}}"}), "c.yml")
	s, err := NewStore([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	const reloaders, rounds = 4, 50
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				m := s.Current().Modules["m"]
				if m.Size != m.Count {
					t.Errorf("size %d beside count %d", m.Size, m.Count)
				}
				st := s.Status()
				if st.Failures >= st.Attempts || st.Successful != (st.Err == nil) {
					t.Errorf("inconsistent: %+v", st)
				}
				if st.Err != nil && !strings.Contains(st.Err.Error(), "modules.m.size: 1") {
					t.Errorf("unexpected: %v", st.Err)
				}
			}
		})
	}
	writers.Go(func() {
		for i := range rounds {
			size := 100 + i
			if i%3 == 2 {
				size = 1
			}
			replace(t, path, fmt.Sprintf("modules: {m: {size: %d, count: %d}}", size, size))
		}
	})
	var failed atomic.Uint64
	for range reloaders {
		writers.Go(func() {
			for range rounds {
				if s.Reload() != nil {
					failed.Add(1)
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	if st := s.Status(); st.Attempts != 1+reloaders*rounds || st.Failures != failed.Load() {
		t.Errorf("%+v, but %d reloads failed", st, failed.Load())
	}
}
