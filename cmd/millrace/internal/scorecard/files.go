package scorecard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millrace/ingest/dialect"
)

// source is a file to read, and how the report calls it.
type source struct{ path, name string }

// transcript says whether a file in a folder may be one, by its name. A file that is named itself is always read.
func transcript(path string) bool {
	switch filepath.Ext(path) {
	case ".jsonl", ".ndjson", ".json", ".traj":
		return true
	}
	return false
}

// sources are the files under the paths, in the order of their names. Of one path names are relative to it; of several,
// to nothing, so that they stay apart.
func sources(paths []string) ([]source, error) {
	var found []source
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("no transcripts: %w", err)
		}
		if !info.IsDir() {
			name := filepath.Base(root)
			if len(paths) > 1 {
				name = root
			}
			found = append(found, source{root, name})
			continue
		}
		err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() || !transcript(path) {
				return nil
			}
			name := path
			if len(paths) == 1 {
				name, err = filepath.Rel(root, path)
			}
			found = append(found, source{path, name})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look through %s: %w", root, err)
		}
	}
	slices.SortFunc(found, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(found, func(a, b source) bool { return a.path == b.path }), nil
}

// read reads all files of the paths.
func read(format string, paths []string) (*dialect.Result, error) {
	files, err := sources(paths)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no transcripts in %s: there is no .jsonl, .json or .traj file", strings.Join(paths, ", "))
	}
	reader, err := dialect.NewReader(format)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := readFile(reader, f); err != nil {
			return nil, err
		}
	}
	return reader.Result(), nil
}

func readFile(reader dialect.Reader, f source) (err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return reader.Add(f.name, file)
}
