package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// expand turns values of --config.file into names of files, each once.
func expand(paths []string, l *ledger) []string {
	var names []string
	seen := map[string]bool{}
	for _, path := range paths {
		matches, err := expandOne(path)
		if err != nil {
			l.add(Mistake{File: path, Message: err.Error()})
		}
		for _, name := range matches {
			if clean := filepath.Clean(name); !seen[clean] {
				seen[clean] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// expandOne expands one value. A name that exists is taken as it is, whatever
// characters it has. As in a shell, a glob does not match hidden files unless it
// says so; and it passes over directories. Both are what a mounted Kubernetes
// ConfigMap is full of.
func expandOne(path string) ([]string, error) {
	if _, err := os.Lstat(path); err == nil || !strings.ContainsAny(path, `*?[`) {
		return []string{path}, nil
	}
	matches, err := filepath.Glob(path)
	if err != nil {
		return nil, errors.New("is not a valid glob: it may have *, ? and [a-z]")
	}
	var names []string
	for _, m := range matches {
		if hidden(m, path) {
			continue
		}
		if info, err := os.Stat(m); err == nil && info.IsDir() {
			continue
		}
		names = append(names, m)
	}
	if len(names) == 0 {
		return nil, errors.New("no file matches this glob")
	}
	return names, nil
}

// hidden tells whether a match has a part with a dot in front that the glob does
// not have there.
func hidden(match, glob string) bool {
	parts := strings.Split(filepath.Clean(match), string(filepath.Separator))
	asked := strings.Split(filepath.Clean(glob), string(filepath.Separator))
	for i, j := len(parts)-1, len(asked)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
		if strings.HasPrefix(parts[i], ".") && !strings.HasPrefix(asked[j], ".") {
			return true
		}
	}
	return false
}

// readFile reads at most one byte more than is allowed, so that its length tells
// a file that is too large.
func readFile(name string, l *ledger) ([]byte, bool) {
	fail := func(format string, args ...any) ([]byte, bool) {
		l.add(Mistake{File: name, Message: fmt.Sprintf(format, args...)})
		return nil, false
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fail("is a directory; a glob such as %s reads its files", filepath.Join(name, "*.yml"))
	}
	f, err := os.Open(name)
	if err != nil {
		return fail("cannot be read: %v", cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return fail("cannot be read: %v", cause(err))
	}
	return data, true
}

// cause is an error without the file's name, which stands in front of it anyway.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
