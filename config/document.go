package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxFileSize is the largest configuration file in bytes.
const MaxFileSize = 1 << 20

// parseDocument turns the bytes of one file into the node of its only YAML
// document. Everything else that may be in there is a mistake: yaml.v3 by itself
// reads the first document and ignores what follows without a word.
func (d *decoder) parseDocument(data []byte) *yaml.Node {
	if !d.checkBytes(data) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		d.mistake(0, "", "", "the file holds no configuration")
		return nil
	}
	if err != nil {
		d.syntax(err, data)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		d.mistake(next.Line, "", "---", "a second YAML document; a file has one, put the rest into a file of its own")
	case !errors.Is(err, io.EOF):
		d.syntax(err, data)
	}
	return doc.Content[0]
}

// checkBytes looks at what the YAML reader would refuse without telling the line.
func (d *decoder) checkBytes(data []byte) bool {
	if len(data) > MaxFileSize {
		d.mistake(0, "", "", fmt.Sprintf("the file is larger than %d bytes", MaxFileSize))
		return false
	}
	line := 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			d.mistake(line, "", fmt.Sprintf("byte 0x%02x", data[i]), "the file must be UTF-8")
			return false
		case r == '\n':
			line++
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			d.mistake(line, "", fmt.Sprintf("byte 0x%02x", r), "control characters are not allowed")
			return false
		}
		i += n
	}
	return true
}

// syntax reports an error of yaml.v3, which words it "yaml: line N: what".
func (d *decoder) syntax(err error, data []byte) {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(what, "line "); ok {
		if n, msg, ok := strings.Cut(rest, ": "); ok {
			line, _ = strconv.Atoi(n)
			what = msg
		}
	}
	switch what {
	case "did not find expected key", "did not find expected '-' indicator":
		line = brokenLine(data, err) // it names the line where the mapping or list begins
	default:
		if strings.HasPrefix(what, "did not find expected") {
			line++ // its parser counts lines from 0, its scanner from 1
		}
	}
	if name, ok := strings.CutPrefix(what, "unknown anchor '"); ok { // the one without a line
		name = strings.TrimSuffix(name, "' referenced")
		if i := bytes.Index(data, []byte("*"+name)); i >= 0 {
			line = 1 + bytes.Count(data[:i], []byte("\n"))
		}
	}
	d.mistake(line, "", "", "this is not YAML: "+what)
}

// brokenLine finds the line at which the indentation breaks: the first that makes
// the lines up to it fail as the whole does. Lines that are cut off in the middle
// of something fail in another way, so a binary search finds it.
func brokenLine(data []byte, whole error) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	end := 0
	ends := make([]int, len(lines))
	for i, l := range lines {
		end += len(l)
		ends[i] = end
	}
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		dec := yaml.NewDecoder(bytes.NewReader(data[:ends[i]]))
		for {
			var doc yaml.Node
			if err := dec.Decode(&doc); err != nil {
				return err.Error() == whole.Error()
			}
		}
	})
}
